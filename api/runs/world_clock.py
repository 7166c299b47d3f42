"""Converts message times between a simulated world's clock, which starts at 0, and the runs' wall clock."""

from __future__ import annotations

import msgspec

from zabka.journal.messages import Message
from zabka.simulation.engine.loop import WALL_START_US


def on_wall_clock(message: Message) -> Message:
    """Return a simulated world's message with its times converted to the run's wall clock."""
    return _moved(message, WALL_START_US)


def on_world_clock(message: Message) -> Message:
    """Return a run's message with its times converted to the simulated world's clock, as stored in files."""
    return _moved(message, -WALL_START_US)


def _moved(message: Message, by_us: int) -> Message:
    arrived_us = None if message.arrived_us is None else message.arrived_us + by_us
    return msgspec.structs.replace(message, sent_us=message.sent_us + by_us, arrived_us=arrived_us)
