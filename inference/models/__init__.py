"""Inference's state, one file a concept. Verbs are in `inference.services`."""

from inference.models.checkpoint import Checkpoint
from inference.models.generation import Generation, State
from inference.models.release import EngineKind, Release
from inference.models.route import Route

__all__ = ["Checkpoint", "EngineKind", "Generation", "Release", "Route", "State"]
