"""The journal's event for an administrator's request.

The strings of the request are truncated, because they are untrusted and may be megabytes long.
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.journal.events import AdminRequested

SUBJECTS_MAX = 20
CHARACTERS_MAX = 260
"""Maximum length of each string in an AdminRequested event; a topic name has at most 249 characters."""


def admin_requested(request: str, subjects: Sequence[str], client: str) -> AdminRequested:
    """Return the event for a request.

    The event lists the first subjects of the request, and the number of the subjects that are not listed.
    """
    named = [_short(subject) for subject in subjects[:SUBJECTS_MAX]]
    if len(subjects) > SUBJECTS_MAX:
        named.append(f"and {len(subjects) - SUBJECTS_MAX} more")
    return AdminRequested(_short(request), named, _short(client))


def _short(text: str) -> str:
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}…"
