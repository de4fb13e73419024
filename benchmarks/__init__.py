"""Measurements side by side with what the platform stands on. See README.md."""
