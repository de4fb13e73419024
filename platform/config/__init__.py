"""Settings, URLs, ASGI, Celery and the supervisor: the top of the house, which knows everything
below.
"""
