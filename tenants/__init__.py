"""Who: tenants, people, keys and what each may do."""
