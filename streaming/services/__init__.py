"""The chat's verbs, one file a capability."""
