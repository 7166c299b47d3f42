"""An administrator's request as the journal keeps it: a stranger's word, which may be megabytes, in bounds."""

from __future__ import annotations

from collections.abc import Sequence

from zabka.journal.events import AdminRequested

SUBJECTS_MAX = 20
CHARACTERS_MAX = 260
"""A topic's name has 249 characters at most."""


def admin_requested(request: str, subjects: Sequence[str], client: str) -> AdminRequested:
    """The event, with as many subjects as anybody reads; of more the number stands there."""
    named = [_short(subject) for subject in subjects[:SUBJECTS_MAX]]
    if len(subjects) > SUBJECTS_MAX:
        named.append(f"and {len(subjects) - SUBJECTS_MAX} more")
    return AdminRequested(_short(request), named, _short(client))


def _short(text: str) -> str:
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}…"
