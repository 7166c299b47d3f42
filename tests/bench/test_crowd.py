"""The measurement of a crowd of sessions and watches, on a small crowd."""

from __future__ import annotations

import pytest

from bench.crowd import main


def test_every_session_lives_and_every_watch_fires(capsys: pytest.CaptureFixture[str]) -> None:
    main(side="ours", sessions=20, watches=60, hot=10, heartbeats_s=0.5, felt_s=0.5)

    told = capsys.readouterr().out
    assert "60 watches" in told
    assert "20 of 20 sessions live" in told
    assert "one delete fired 10 watches" in told
