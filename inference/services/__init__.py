"""Inference's verbs, one file a capability."""
