"""Tenancy's verbs, one file a capability. Each takes keyword-only `actor` and `now` where it writes."""
