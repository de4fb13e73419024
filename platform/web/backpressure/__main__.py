from __future__ import annotations

from .command import FlowCommand

if __name__ == "__main__":
    FlowCommand.entrypoint()
