"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# A machine may be busy: how long an example takes proves nothing.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
