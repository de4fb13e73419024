"""Admission as a row of stages: each takes the admission as it stands, and refuses it or passes it
on.
"""
