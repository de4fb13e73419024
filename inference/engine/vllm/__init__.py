"""vLLM: the one package that imports it, in engine hosts and vLLM's own child processes."""
