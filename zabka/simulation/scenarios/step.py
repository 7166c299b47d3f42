"""Definitions shared by the steps of all scenarios."""

from __future__ import annotations


class StepFailed(AssertionError):
    """The run of a script deviated from what the script expects."""
