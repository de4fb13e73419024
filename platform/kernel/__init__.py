"""What everyone may import: errors, clock, ids, redis access, database access from async code."""
