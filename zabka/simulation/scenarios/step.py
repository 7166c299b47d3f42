"""Shared by the steps of all scenarios, whatever they are played over."""

from __future__ import annotations


class StepFailed(AssertionError):
    """The run did not go as the script expects."""
