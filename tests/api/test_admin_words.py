"""What peers answer to admin words."""

from __future__ import annotations

import pytest

from zabka.api.views.admin_words import is_watch_list, sessions_of

WATCHED = "/controller\n\t0x1a\n\t0x1b\n/brokers/ids\n\t0x1a\n"


def test_the_sessions_of_a_path_are_those_below_it() -> None:
    assert is_watch_list(WATCHED)
    assert sessions_of(WATCHED, "/controller") == ["0x1a", "0x1b"]
    assert sessions_of(WATCHED, "/brokers/ids") == ["0x1a"]
    assert sessions_of(WATCHED, "/brokers") == []


@pytest.mark.parametrize("answer", ["", "\n", "wchp is not executed because it is not in the whitelist.\n"])
def test_a_refusal_is_no_list(answer: str) -> None:
    assert not is_watch_list(answer)


@pytest.mark.parametrize("path", ["/a\u2028b", "/a\x85b", "/a\x0bb", "/a\nb", "/a\u2028"])
def test_a_watched_path_that_holds_an_end_of_line_hides_no_other_paths_watchers(path: str) -> None:
    answer = f"/before\n\t0x1\n{path}\n\t0x2\n/after\n\t0x3\n"

    assert is_watch_list(answer)
    assert sessions_of(answer, "/before") == ["0x1"]
    assert sessions_of(answer, "/after") == ["0x3"]


def test_a_path_that_holds_an_end_of_line_of_texts_has_its_own_watchers() -> None:
    assert sessions_of("/a\u2028b\n\t0x2\n", "/a\u2028b") == ["0x2"]
