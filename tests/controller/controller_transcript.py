"""Transcript of a controller: its writes and its requests to brokers, one per line.

zk t-0: leader 3, ISR 3,4, LE 1, PE 1          a partition's state was written: leader and partition epoch
zk t: 0 = 2,1 adding 2 removing 1              a topic's assignment was written
zk - /admin/delete_topics/t                    a znode was deleted; + is created, = is written
LeaderAndIsr 3,4: t-0 leader 3, ISR 3,4, LE 1, replicas 2,3,4     brokers 3 and 4 received the same
StopReplica 2: t-0 LE 1, delete                -2 as leader epoch: the topic is being deleted
UpdateMetadata 1,3: live 1,3; t-0 leader 3     `offline` lists offline replicas
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.controller.controller_world import ControlRequest, World
from zabka.ensemble.client.service import Create, Delete, Op, OpResult, SetData
from zabka.ensemble.errors import ErrorCode
from zabka.journal.events import TopicPartition
from zabka.kafka.zk import znodes


class Transcript:
    """Record of a controller's writes and requests. `take` returns those since the previous call."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lines: list[tuple[int | None, str]] = []
        apply = world.ensemble.multi

        def multi(ops: Sequence[Op], session: int) -> list[OpResult]:
            results = apply(ops, session)
            # Record only writes by controllers. Writes by tests have no session, and brokers without a controller have
            # session ids outside this range.
            if 0x1000 <= session < 0x7000 and all(result.error is ErrorCode.OK for result in results):
                for op, result in zip(ops, results, strict=True):
                    self._written(op, result)
            return results

        world.ensemble.multi = multi  # type: ignore[method-assign]
        world.received = _RecordedRequests(self)

    def take(self) -> str:
        """Return the writes since the previous call in order, followed by the control requests in order.

        Equal requests to several brokers share one line. The lines that name a broker are in the order in which it
        received them.
        """
        self._world.settle()
        lines = [text for broker_id, text in self._lines if broker_id is None]
        orders: dict[int, list[str]] = {}
        for broker_id, text in self._lines:
            if broker_id is not None:
                orders.setdefault(broker_id, []).append(text)
        self._lines.clear()
        return "\n".join([*lines, *_side_by_side(orders)])

    def _written(self, op: Op, result: OpResult) -> None:
        if not isinstance(op, Create | SetData | Delete):
            return
        parts = op.path.split("/")
        if op.path.startswith(znodes.BROKER_TOPICS) and not isinstance(op, Delete):
            if parts[-1] == "state" and result.stat is not None:
                state = znodes.decode_partition_state(op.data, result.stat.version)
                assert state is not None
                recovering = ", recovering" if state.recovering else ""
                epochs = f"LE {state.leader_epoch}, PE {state.partition_epoch}"
                self._add(None, f"zk {parts[3]}-{parts[5]}: {_led(state.leader, state.isr)}, {epochs}{recovering}")
                return
            topic = znodes.decode_topic(op.data) if len(parts) == 4 else None
            if topic is not None:
                rows = [f"{n} = {_row(*topic.partitions[n])}" for n in sorted(topic.partitions)]
                self._add(None, f"zk {parts[3]}: {'; '.join(rows)}")
                return
        sign = "-" if isinstance(op, Delete) else "+" if isinstance(op, Create) else "="
        self._add(None, f"zk {sign} {op.path}")

    def record(self, received: ControlRequest) -> None:
        """Record a control request to a broker."""
        rows = [_row_text(received.kind, partition, row) for partition, row in sorted(received.partitions().items())]
        if received.kind == "UpdateMetadata":
            rows.insert(0, f"live {_ids([broker.id_ for broker in received.request.live_brokers])}")
        self._add(received.to, f"{received.kind} {{}}: {'; '.join(rows)}")

    def _add(self, broker_id: int | None, text: str) -> None:
        self._lines.append((broker_id, text))


class _RecordedRequests(list[ControlRequest]):
    def __init__(self, transcript: Transcript) -> None:
        super().__init__()
        self._transcript = transcript

    def append(self, received: ControlRequest) -> None:
        super().append(received)
        self._transcript.record(received)


def _side_by_side(orders: Mapping[int, Sequence[str]]) -> list[str]:
    """Merge the lines of all brokers, with each broker's lines in their order.

    If several brokers have the same line next, it appears once.
    """
    merged: list[tuple[list[int], str]] = []
    for broker_id, texts in sorted(orders.items(), key=lambda item: (-len(item[1]), item[0])):
        place = 0
        for text in texts:
            shared = next((n for n in range(place, len(merged)) if merged[n][1] == text), None)
            if shared is None:
                merged.insert(place, ([], text))
                shared = place
            merged[shared][0].append(broker_id)
            place = shared + 1
    return [text.format(_ids(sorted(ids))) for ids, text in merged]


def _ids(broker_ids: Sequence[int]) -> str:
    return ",".join(map(str, broker_ids))


def _row(replicas: Sequence[int], adding: Sequence[int], removing: Sequence[int]) -> str:
    more = "".join(f" {what} {_ids(ids)}" for what, ids in (("adding", adding), ("removing", removing)) if ids)
    return _ids(replicas) + more


def _led(leader: int, isr: Sequence[int]) -> str:
    return f"leader {leader if leader >= 0 else 'none' if leader == -1 else 'deleted'}, ISR {_ids(isr)}"


def _row_text(kind: str, partition: TopicPartition, row: object) -> str:
    name = f"{partition.topic}-{partition.partition}"
    if kind == "StopReplica":
        return f"{name} LE {row.leader_epoch}{', delete' if row.delete_partition else ''}"  # type: ignore[attr-defined]
    text = f"{name} {_led(row.leader, row.isr)}, LE {row.leader_epoch}"  # type: ignore[attr-defined]
    if kind == "LeaderAndIsr":
        replicas = _row(row.replicas, row.adding_replicas, row.removing_replicas)  # type: ignore[attr-defined]
        return f"{text}, replicas {replicas}{', new' if row.is_new else ''}"  # type: ignore[attr-defined]
    return text + (f", offline {_ids(row.offline_replicas)}" if row.offline_replicas else "")  # type: ignore[attr-defined]
