"""Inference's state, one file a concept. Verbs are in `inference.services`."""

from inference.models.checkpoint import Checkpoint
from inference.models.generation import Generation, State
from inference.models.maintenance_run import Maintenance, MaintenanceRun
from inference.models.release import EngineKind, Release
from inference.models.replay_key import ReplayKey
from inference.models.route import Detached, Route
from inference.models.usage_hour import UsageHour

__all__ = [
    "Checkpoint",
    "Detached",
    "EngineKind",
    "Generation",
    "Maintenance",
    "MaintenanceRun",
    "Release",
    "ReplayKey",
    "Route",
    "State",
    "UsageHour",
]
