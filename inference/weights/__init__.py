"""Making weights ready for an engine: found, converted, checked, then in the model store."""
