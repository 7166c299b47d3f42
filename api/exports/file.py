"""Runs as one file: the page as HTML, or a trace for another viewer."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from zabka.api.exports.contents import contents
from zabka.api.exports.document import document, packed
from zabka.api.exports.recorded import Recorded, copied
from zabka.api.runs.why import progress_types, read_sentences_once
from zabka.journal.events import Entry, type_name
from zabka.journal.perfetto import perfetto_trace
from zabka.journal.shiviz import shiviz_log


class Format(StrEnum):
    """The file format of an exported run."""

    HTML = "html"
    PERFETTO = "perfetto"
    SHIVIZ = "shiviz"


SUFFIXES = {Format.HTML: ".html", Format.PERFETTO: ".perfetto.json", Format.SHIVIZ: ".shiviz.log"}
MEDIA_TYPES = {Format.HTML: "text/html", Format.PERFETTO: "application/json", Format.SHIVIZ: "text/plain"}


def file_of(runs: Sequence[Recorded], shown: str, form: Format) -> bytes:
    """Return the exported file of some runs. A trace contains only the run with id `shown`. Raises NoPage for HTML."""
    if form is Format.HTML:
        return page_of(runs, shown).encode()
    [run] = [run for run in runs if run.about.id == shown]
    if form is Format.PERFETTO:
        before = copied(run.before)
        return perfetto_trace(run.entries, run.messages, read_sentences_once(), _is_progress, before)
    return shiviz_log(run.entries, run.messages, read_sentences_once(), _is_progress).encode()


def _is_progress(entry: Entry) -> bool:
    return type_name(entry.event) in progress_types()


def page_of(runs: Sequence[Recorded], shown: str, tab: str | None = None) -> str:
    """Return the HTML file of some runs.

    The page opens at the decisive moment of the run `shown`. If there is a second run, the page shows it next to the
    first. `tab` is the tab that the page shows first; None means the tracks. Raises NoPage.
    """
    [about] = [run.about for run in runs if run.about.id == shown]
    other = next((run.about.id for run in runs if run.about.id != shown), None)
    at = about.decisive_seq
    inside = at is not None and about.first_seq <= at <= about.last_seq
    opening: dict[str, Any] = {"run": shown, "at": at if inside else None, "with": other}
    if tab is not None:
        opening["tab"] = tab
    return document(f"{about.title} · zabka", packed(contents(runs, opening)))
