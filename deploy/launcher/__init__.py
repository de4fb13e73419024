"""What `make run`, `make test` and `make check` do before Nehir itself can run. Standard library
only.
"""
