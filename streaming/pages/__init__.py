"""The chat's pages: views that parse, authorize, call a service and render."""
