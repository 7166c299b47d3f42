"""Definitions that the steps of all scenarios share, for any kind of cluster."""

from __future__ import annotations


class StepFailed(AssertionError):
    """The run deviated from the script's expectations."""
