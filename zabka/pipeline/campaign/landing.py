"""The lake's tables of campaigns: each contains the rows of every campaign, in one directory per campaign.

A campaign is run in `LAKE/campaigns/NAME/`. Its tables are also copied to directories such as
`LAKE/campaign_runs/campaign=NAME/`, so that one query covers all campaigns.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote

CAMPAIGNS = "campaigns"
"""Directory of a lake that contains its campaigns."""
PREFIX = "campaign_"
FILE = "part-0.parquet"


def lake_of(directory: Path) -> Path | None:
    """Return the lake that contains a campaign's directory, or None if it is not in a lake."""
    return directory.parent.parent if directory.parent.name == CAMPAIGNS else None


def land(directory: Path, lake: Path, tables: list[str]) -> None:
    """Copy a campaign's tables into the lake. Each one replaces its earlier version atomically."""
    for table in tables:
        place = lake / f"{PREFIX}{table}" / f"campaign={quote(directory.name, safe='')}"
        place.mkdir(parents=True, exist_ok=True)
        aside = place / f".{FILE}"
        shutil.copyfile(directory / table / FILE, aside)
        aside.replace(place / FILE)
