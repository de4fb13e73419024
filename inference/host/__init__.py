"""The engine host: one process a replica, which pulls from the queue, runs an engine and writes
token logs.
"""
