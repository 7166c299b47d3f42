"""Parsing of the peers' replies to four-letter words."""

from __future__ import annotations

import pytest

from zabka.api.views.admin_words import is_watch_list, sessions_of

WATCHED = "/controller\n\t0x1a\n\t0x1b\n/brokers/ids\n\t0x1a\n"


def test_sessions_that_watch_a_path_are_read_from_the_watch_list() -> None:
    assert is_watch_list(WATCHED)
    assert sessions_of(WATCHED, "/controller") == ["0x1a", "0x1b"]
    assert sessions_of(WATCHED, "/brokers/ids") == ["0x1a"]
    assert sessions_of(WATCHED, "/brokers") == []


@pytest.mark.parametrize("answer", ["", "\n", "wchp is not executed because it is not in the whitelist.\n"])
def test_error_reply_is_not_recognised_as_a_watch_list(answer: str) -> None:
    assert not is_watch_list(answer)


@pytest.mark.parametrize("path", ["/a\u2028b", "/a\x85b", "/a\x0bb", "/a\nb", "/a\u2028"])
def test_watched_path_with_newline_does_not_hide_other_watchers(path: str) -> None:
    answer = f"/before\n\t0x1\n{path}\n\t0x2\n/after\n\t0x3\n"

    assert is_watch_list(answer)
    assert sessions_of(answer, "/before") == ["0x1"]
    assert sessions_of(answer, "/after") == ["0x3"]


def test_watched_path_with_unicode_line_end_keeps_its_watchers() -> None:
    assert sessions_of("/a\u2028b\n\t0x2\n", "/a\u2028b") == ["0x2"]
