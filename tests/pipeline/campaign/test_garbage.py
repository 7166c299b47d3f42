"""Cost of Python's garbage collector in processes that play many worlds."""

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
"""Program that prints the number of objects examined by the collector (`gc.get_objects`) after each run."""


def test_garbage_collector_of_a_worker_skips_loaded_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOKED_AT], cwd=ROOT, text=True, capture_output=True, check=True
    ).stdout  # fmt: skip
    looked_at = [int(line) for line in done.split()]
    # The modules of the simulated world alone have 50,000 objects.
    assert max(looked_at) < 10_000, looked_at
