"""Making weights ready for an engine: found, converted, checked, and only then in the model store."""
