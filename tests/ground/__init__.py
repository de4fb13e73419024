"""What the tests stand on: real Valkey, real PostgreSQL, and the platform's own processes."""
