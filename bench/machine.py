"""The machine and the versions: two runs are comparable if these are equal."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.servers import java_major, zookeeper_version
from scripts.setup.compiled_with_profiles import compiled_with_profiles

SYNCS = 50


def fdatasync_ms(directory: Path) -> float:
    """The median time of a small append with fdatasync in `directory`."""
    times = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(SYNCS):
            begin = time.perf_counter()
            os.write(file.fileno(), b"x" * 512)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return median(times) * 1000


def describe(directory: Path) -> dict[str, object]:
    """Cores, load, disk and versions."""
    cpus = Path("/proc/cpuinfo").read_text()
    return {
        "processor": found[1] if (found := re.search(r"model name\s*: (.*)", cpus)) else "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
        "fdatasync_ms": round(fdatasync_ms(directory), 3),
        "python": platform.python_version(),
        "python_with_profiles": compiled_with_profiles(),
        "java": java_major(),
        "zookeeper": zookeeper_version(),
    }


def cautions(machine: dict[str, object]) -> list[str]:
    """Reasons why the figures are less certain than they look."""
    cores, load = machine["cores"], machine["load_before"]
    found = []
    if isinstance(cores, int) and isinstance(load, float) and load > cores * 0.25:
        found.append(
            f"noisy: other programs already keep the machine busy (load {load:.1f} on {cores} cores); "
            "ratios of CPU per operation are more reliable than those of throughput"
        )
    if not machine["python_with_profiles"]:
        found.append(
            f"slow Python: {sys.base_prefix} was compiled without profiles and takes a fifth more time; "
            "rm -r .venv && make setup takes a distribution's Python of the same version if there is one"
        )
    return found
