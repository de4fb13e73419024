"""The management API, `/api/v1/`: what the admin does, for programs, by the same services.

A resource parses, asks the table of permissions, calls a service and renders; `operations` is what
they have in common, and where each says all that its description tells of it.
"""
