"""Tenancy's verbs, one file a capability. They take `actor` and `now` where they write."""
