"""The tenant scope of an admin request: operators see the platform, tenant admins their tenant."""
