"""Sequential znodes by which a broker calls the controller: ISR changes written past it, failed log directories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zabka.controller.reign import Reign
from zabka.ensemble.client.service import Delete
from zabka.kafka.zk import znodes


class Notifications(NamedTuple):
    """Where they are left, and the controller's event that sees to them."""

    path: str
    event: str


ISR_CHANGES = Notifications(znodes.ISR_CHANGE_NOTIFICATION, "IsrChangeNotification")
LOG_DIR_EVENTS = Notifications(znodes.LOG_DIR_EVENT_NOTIFICATION, "LogDirEventNotification")


async def watch_notifications(reign: Reign, which: Notifications) -> list[str]:
    """The paths of those that are there, a watch left on the list."""
    names = await reign.read_list(which.path, which.event)
    return [f"{which.path}/{name}" for name in names]


async def delete_notifications(reign: Reign, paths: Sequence[str]) -> None:
    """They have been seen to."""
    await reign.writer.write([Delete(path) for path in paths])
