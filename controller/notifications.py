"""Sequential znodes that notify the controller of ISR changes by leaders and of failed log directories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from zabka.controller.partition_store import WrittenState
from zabka.controller.reassignments import complete_reassignments
from zabka.controller.term import ControllerTerm
from zabka.ensemble.client.service import Delete
from zabka.ensemble.errors import ErrorCode
from zabka.journal.cause import transaction_cause
from zabka.journal.events import TopicPartition
from zabka.kafka.zk import znodes


class Notifications(NamedTuple):
    """One kind of notifications: the path of the znodes, and the controller event that processes them."""

    path: str
    event: str


ISR_CHANGES = Notifications(znodes.ISR_CHANGE_NOTIFICATION, "IsrChangeNotification")
LOG_DIR_EVENTS = Notifications(znodes.LOG_DIR_EVENT_NOTIFICATION, "LogDirEventNotification")


async def watch_notifications(term: ControllerTerm, which: Notifications) -> list[str]:
    """Return the paths of the current notifications, and set a watch on their parent znode."""
    names = await term.read_list(which.path, which.event)
    return [f"{which.path}/{name}" for name in names]


async def delete_notifications(term: ControllerTerm, paths: Sequence[str]) -> None:
    """Delete the notifications that were processed."""
    await term.writer.write([Delete(path) for path in paths])


async def process_isr_notifications(term: ControllerTerm, _: str) -> None:
    """Read the states of the partitions in the notifications, and update every broker's metadata.

    Leaders with an inter-broker protocol before 2.7-IV2 write these ISR changes themselves.
    """
    service, context = term.zk.service, term.context
    paths = await watch_notifications(term, ISR_CHANGES)
    outcomes = await term.zk.batch([partial(service.get, path) for path in paths])
    changed: dict[TopicPartition, None] = {}
    for path, outcome in zip(paths, outcomes, strict=True):
        listed = znodes.decode_partition_set(outcome.value[0]) if outcome.value is not None else []
        if listed is None:
            term.report(ISR_CHANGES.event, f"{path} is not readable")
        changed.update(dict.fromkeys(p for p in listed or [] if context.has_partition(p)))
    for partition, row in (await term.store.read_written(list(changed))).items():
        old = context.leadership.get(partition)
        if isinstance(row, WrittenState):
            state = row.state
            context.leadership[partition] = state
            if old is not None and old.isr != state.isr:
                cause = "lag" if len(state.isr) < len(old.isr) else "caught_up"
                term.store.announce_isr(partition, old, state, 0, cause, transaction_cause(row.zxid))
        elif row is not ErrorCode.NO_NODE:
            term.report(ISR_CHANGES.event, f"the state of {partition} is not readable: {row.name}")
    if changed:
        term.send_update_metadata(context.live_or_shutting_down_ids, list(changed))
        await complete_reassignments(term, changed)
    await delete_notifications(term, paths)
