"""The cost of Python's garbage collector in processes that execute many simulated runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LOOKED_AT = """
import gc
import msgspec
from zabka.pipeline.campaign.play import Run, row
run = msgspec.json.encode(Run(0, 1, "calm", ("faults.ms=100", "drawn.topics=false")))
for _ in range(3):
    row(run)
    gc.collect()
    print(len(gc.get_objects()))
"""
"""Program that prints, after each run, how many objects the collector examines (`gc.get_objects`)."""


def test_garbage_collector_of_a_worker_skips_loaded_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOKED_AT], cwd=ROOT, text=True, capture_output=True, check=True
    ).stdout  # fmt: skip
    looked_at = [int(line) for line in done.split()]
    # The imported modules alone have 50,000 objects, which must not be examined again after each run.
    assert max(looked_at) < 10_000, looked_at
