"""The parts that the steps of all scripts share, whatever they are played over."""

from __future__ import annotations


class StepFailed(AssertionError):
    """The run did not go as the script expects."""
