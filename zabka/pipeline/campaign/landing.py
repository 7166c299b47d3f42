"""The lake's tables of campaigns: those of every campaign, each below its name.

`LAKE/campaigns/NAME/` is where a campaign is played; its tables stand in `LAKE/campaign_runs/campaign=NAME/` and the
like, too, so that one query asks about all campaigns.
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
    """The lake in which a campaign lies; None of one that lies elsewhere."""
    return directory.parent.parent if directory.parent.name == CAMPAIGNS else None


def land(directory: Path, lake: Path, tables: list[str]) -> None:
    """Put a campaign's tables into the lake, each at once and whole, in the place of what it had there before."""
    for table in tables:
        place = lake / f"{PREFIX}{table}" / f"campaign={quote(directory.name, safe='')}"
        place.mkdir(parents=True, exist_ok=True)
        aside = place / f".{FILE}"
        shutil.copyfile(directory / table / FILE, aside)
        aside.replace(place / FILE)
