"""Over real sockets, against the platform's own processes."""
