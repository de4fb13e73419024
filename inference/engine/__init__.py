"""Engines behind one small contract (`protocol`). No models here, and vLLM is imported in
`vllm` alone.
"""
