"""Runs as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zabka.api.exports.contents import contents
from zabka.api.exports.document import document, packed
from zabka.api.exports.recorded import Recorded


def page_of(runs: Sequence[Recorded], shown: str) -> str:
    """Return the HTML file of runs. It opens at the decisive moment of the run `shown`, next to the other run if any.

    Raises NoPage.
    """
    [about] = [run.about for run in runs if run.about.id == shown]
    other = next((run.about.id for run in runs if run.about.id != shown), None)
    at = about.decisive_seq
    inside = at is not None and about.first_seq <= at <= about.last_seq
    opening: dict[str, Any] = {"run": shown, "at": at if inside else None, "with": other}
    return document(f"{about.title} · zabka", packed(contents(runs, opening)))
