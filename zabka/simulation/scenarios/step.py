"""What the steps of every script have in common, whatever they are played over."""

from __future__ import annotations


class StepFailed(AssertionError):
    """The script and what happened part."""
