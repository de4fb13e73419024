"""Whatever is counted has a row in docs/operations.md, and no row is of what isn't."""

from __future__ import annotations

import importlib
import re

from prometheus_client import REGISTRY

from tests.environment import ROOT

DEFINED_IN = ("inference.metrics", "streaming.metrics", "web.flow_metrics")
ROW = re.compile(r"^\| (`nehir_.+?) \|", re.MULTILINE)


def documented() -> set[str]:
    text = (ROOT / "docs" / "operations.md").read_text().partition("\n## Metrics\n")[2]
    names = re.findall(r"`(nehir_\w+)", " ".join(ROW.findall(text.partition("\n## ")[0])))
    return {name.removesuffix("_total") for name in names}


def test_every_metric_has_a_row() -> None:
    for module in DEFINED_IN:
        importlib.import_module(module)
    counted = {each.name for each in REGISTRY.collect() if each.name.startswith("nehir_")}
    assert counted == documented()
