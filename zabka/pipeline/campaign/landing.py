"""The lake's tables of campaigns: those of every campaign, each below its name.

A campaign is played in `LAKE/campaigns/NAME/`.  Its tables are also copied to `LAKE/campaign_runs/campaign=NAME/` and
so on, so that one query covers all campaigns.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote

CAMPAIGNS = "campaigns"
"""The directory of a lake in which its campaigns lie."""
PREFIX = "campaign_"
FILE = "part-0.parquet"


def lake_of(directory: Path) -> Path | None:
    """Return the lake that holds a campaign, or None if the campaign lies elsewhere."""
    return directory.parent.parent if directory.parent.name == CAMPAIGNS else None


def land(directory: Path, lake: Path, tables: list[str]) -> None:
    """Copy a campaign's tables into the lake; each replaces its earlier version atomically."""
    for table in tables:
        place = lake / f"{PREFIX}{table}" / f"campaign={quote(directory.name, safe='')}"
        place.mkdir(parents=True, exist_ok=True)
        aside = place / f".{FILE}"
        shutil.copyfile(directory / table / FILE, aside)
        aside.replace(place / FILE)
