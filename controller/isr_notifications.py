"""ISR changes that leaders wrote themselves, leaving a note (brokers with an inter-broker protocol before 2.7-IV2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from controller import znodes
from controller.reassignments import complete_reassignments
from controller.reign import Reign
from controller.znodes import LeaderAndIsr
from ensemble.client.service import Delete
from ensemble.errors import ErrorCode
from journal.events import TopicPartition


async def watch_isr_notifications(reign: Reign) -> list[str]:
    """The notifications' names, a watch left on the list."""
    service = reign.zk.service
    watcher = reign.signals.watcher("IsrChangeNotification")
    return await reign.zk.call(lambda: service.get_children(znodes.ISR_CHANGE_NOTIFICATION, watcher))


async def delete_isr_notifications(reign: Reign, names: Sequence[str]) -> None:
    """They have been seen to."""
    await reign.writer.write([Delete(f"{znodes.ISR_CHANGE_NOTIFICATION}/{name}") for name in names])


async def process_isr_notifications(reign: Reign, _: str) -> None:
    """Read again what the notifications name, and tell every broker."""
    service, context = reign.zk.service, reign.context
    names = await watch_isr_notifications(reign)
    paths = [f"{znodes.ISR_CHANGE_NOTIFICATION}/{name}" for name in names]
    outcomes = await reign.zk.batch([partial(service.get, path) for path in paths])
    changed: dict[TopicPartition, None] = {}
    for path, outcome in zip(paths, outcomes, strict=True):
        listed = znodes.decode_partition_set(outcome.value[0]) if outcome.value is not None else []
        if listed is None:
            reign.report("IsrChangeNotification", f"{path} is not readable")
        changed.update(dict.fromkeys(p for p in listed or [] if context.has_partition(p)))
    for partition, state in (await reign.store.read(list(changed))).items():
        old = context.leadership.get(partition)
        if isinstance(state, LeaderAndIsr):
            context.leadership[partition] = state
            if old is not None and old.isr != state.isr:
                cause = "lag" if len(state.isr) < len(old.isr) else "caught_up"
                reign.store.announce_isr(partition, state, 0, cause)
        elif state is not ErrorCode.NO_NODE:
            reign.report("IsrChangeNotification", f"the state of {partition} is not readable: {state.name}")
    if changed:
        reign.send_update_metadata(context.live_or_shutting_down_ids, list(changed))
        await complete_reassignments(reign, changed)
    await delete_isr_notifications(reign, names)
