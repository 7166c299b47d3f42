"""What the figures depend on besides the code: a line about the machine, so that two runs are not compared blindly."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.ensembles import java_major, zookeeper_version
from scripts.setup.compiled_with_profiles import compiled_with_profiles

SYNCS = 50


def fdatasync_ms(directory: Path) -> float:
    """The median time of one small append and its fdatasync in `directory`."""
    times = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(SYNCS):
            begin = time.perf_counter()
            os.write(file.fileno(), b"x" * 512)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return median(times) * 1000


def processor() -> str:
    """The processor's name, "unknown" where the kernel does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def describe(directory: Path) -> dict[str, object]:
    """Cores, what else keeps them busy, the disk, and the versions."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
        "fdatasync_ms": round(fdatasync_ms(directory), 3),
        "python": platform.python_version(),
        "python_with_profiles": compiled_with_profiles(),
        "java": java_major(),
        "zookeeper": zookeeper_version(),
    }


def cautions(machine: dict[str, object]) -> list[str]:
    """What makes these figures less sure than they look."""
    cores, load = machine["cores"], machine["load_before"]
    found = []
    if isinstance(cores, int) and isinstance(load, float) and load > cores * 0.25:
        found.append(
            f"noisy: other programs already keep the machine busy (load {load:.1f} on {cores} cores); "
            "trust the ratios of CPU per operation before those of throughput"
        )
    if not machine["python_with_profiles"]:
        found.append(
            f"slow Python: {sys.base_prefix} was compiled without profiles, and ours takes a fifth more time with it; "
            "rm -r .venv && make setup takes a distribution's of the same version where there is one"
        )
    return found
