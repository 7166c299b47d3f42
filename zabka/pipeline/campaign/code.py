"""Which zabka plays: a digest of all code that decides what a run comes to.

Runs that two versions played are not compared: a change of a broker or of a measure is no difference between settings.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

ROOMS = ("journal", "ensemble", "kafka", "controller", "broker_sim", "simulation")
"""The rooms that a simulated world is made of."""
MEASURES = (
    "clients", "evictions", "failovers", "figures", "lives", "measures", "partition_times", "play", "record_losses",
)  # fmt: skip
"""The modules here that make figures of a run."""


def digest() -> str:
    """The digest of the code of this process; the same wherever it lies."""
    root = Path(__file__).parents[2]
    files = [path for room in ROOMS for path in (root / room).rglob("*.py")]
    files += [Path(__file__).with_name(f"{name}.py") for name in MEASURES]
    found = sha256()
    for path in sorted(files):
        data = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
    return found.hexdigest()
