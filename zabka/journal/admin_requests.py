"""An administrator's request in the journal.

Its strings are shortened, because they are untrusted and may be megabytes long.
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.journal.events import AdminRequested

SUBJECTS_MAX = 20
CHARACTERS_MAX = 260
"""The maximum length of a string; a topic's name has at most 249 characters."""


def admin_requested(request: str, subjects: Sequence[str], client: str) -> AdminRequested:
    """Return the event with the first subjects and the count of the others."""
    named = [_short(subject) for subject in subjects[:SUBJECTS_MAX]]
    if len(subjects) > SUBJECTS_MAX:
        named.append(f"and {len(subjects) - SUBJECTS_MAX} more")
    return AdminRequested(_short(request), named, _short(client))


def _short(text: str) -> str:
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}…"
