"""What is left of a Spark session at Ctrl-C, which Java hears of, too."""

from __future__ import annotations

import logging
from unittest import mock

import pytest
from py4j.protocol import Py4JNetworkError

from zabka.cli.pipeline import _answered
from zabka.pipeline.session import _is_no_interruption, stop, was_interrupted


def broken_off() -> Exception:
    """What PySpark raises where Java has ended and a call is broken off: it tells Java that the call is over."""
    try:
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JNetworkError("Answer from Java side is empty")
    except Py4JNetworkError as failed:
        return failed


def test_a_call_that_is_broken_off_is_no_failure_of_sparks() -> None:
    assert was_interrupted(broken_off())
    assert not was_interrupted(Py4JNetworkError("Answer from Java side is empty"))
    with pytest.raises(KeyboardInterrupt), _answered():
        raise broken_off()


def test_py4j_tells_no_stacks_of_calls_that_are_broken_off() -> None:
    said = [
        logging.makeLogRecord({"msg": f"{what} while sending command."}) for what in ("KeyboardInterrupt", "Exception")
    ]
    assert not any(map(_is_no_interruption, said))
    assert _is_no_interruption(logging.makeLogRecord({"msg": "something else"}))


@pytest.mark.parametrize("failed", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError()])
def test_a_session_whose_java_has_ended_is_ended(failed: Exception) -> None:
    stop(mock.Mock(stop=mock.Mock(side_effect=failed)))
