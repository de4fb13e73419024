"""The admin site and its dashboards, for operators and tenant admins."""
