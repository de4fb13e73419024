"""What the management API offers, one file a kind of thing."""
