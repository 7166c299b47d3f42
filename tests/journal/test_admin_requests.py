"""Journal entries of admin requests have a limited size."""

from __future__ import annotations

import msgspec

from zabka.journal.admin_requests import CHARACTERS_MAX, SUBJECTS_MAX, admin_requested


def test_admin_event_lists_first_subjects_and_counts_the_rest() -> None:
    event = admin_requested("ElectLeaders", [f"orders-{number}" for number in range(100_000)], "adminclient-1")
    assert event.subjects[:2] == ["orders-0", "orders-1"]
    assert event.subjects[-1] == f"and {100_000 - SUBJECTS_MAX} more"


def test_long_strings_of_a_request_are_truncated() -> None:
    event = admin_requested("POST /" + "x" * 10_000_000, ["t" * 32_767] * 100, "c" * 32_767)
    assert len(msgspec.json.encode(event)) < (SUBJECTS_MAX + 3) * (CHARACTERS_MAX + 20)


def test_topic_name_is_never_truncated() -> None:
    assert admin_requested("DeleteTopics", ["t" * 249], "").subjects == ["t" * 249]
