"""Signing in and looking after one's own account, on django-allauth."""
