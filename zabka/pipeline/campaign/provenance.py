"""Version, commit and date that identify the code with which a report can be reproduced."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from zabka.pipeline.campaign.ledger import code_digest

ROOT = Path(__file__).resolve().parents[3]


class Provenance(NamedTuple):
    """Origin of a report: version, code and date."""

    version: str
    code: str
    """The commit; without a Git checkout, the digest of the code that executes the runs."""
    date: str
    """Day in UTC, as YYYY-MM-DD."""


def provenance(root: Path = ROOT) -> Provenance:
    """Return the origin of a report that this process creates now."""
    code = _commit(root) or f"code {code_digest()[:12]}"
    return Provenance(version("zabka"), code, datetime.now(UTC).date().isoformat())


def _commit(root: Path) -> str | None:
    # An installed package can be in the checkout of another project, whose commit is not zabka's.
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=, changed since"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return f"commit {done.stdout.strip()}" if done.returncode == 0 else None
