"""The voters whose disks must hold a transaction are read from the history, not from a peer."""

from __future__ import annotations

from zabka.ensemble.ids import Epoch, SessionId, Zxid
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.simulation.judges.committed_membership import CommittedMembership, voters_of
from zabka.simulation.judges.rules import DurableState


class _Disk:
    """Disk that holds the given zxids."""

    accepted = current = Epoch(1)

    def __init__(self, *held: int) -> None:
        self._held = held

    def last_durable(self) -> Zxid:
        return Zxid(max(self._held, default=0))

    def holds(self, zxid: Zxid) -> bool:
        return zxid in self._held


def _set(zxid: int, data: str = "", kind: OpCode = OpCode.SET_DATA) -> Txn:
    return Txn(SessionId(1), 1, Zxid(zxid), 0, kind, SetDataTxn("/zookeeper/config", data.encode(), 1))


def _server(*peers: int, observers: tuple[int, ...] = ()) -> str:
    lines = [f"server.{peer}=h:1:2:participant;0.0.0.0:3" for peer in peers]
    lines += [f"server.{peer}=h:1:2:observer;0.0.0.0:3" for peer in observers]
    return "\n".join([*lines, "version=100000002"])


def _disks(**held: tuple[int, ...]) -> dict[int, DurableState]:
    return {int(name[1:]): _Disk(*zxids) for name, zxids in held.items()}


def test_observers_are_not_voters() -> None:
    assert voters_of(_server(1, 3, observers=(2, 4))) == (1, 3)


def test_half_of_the_voters_is_not_a_quorum() -> None:
    disks = _disks(p1=(7,), p2=(7,), p3=(), p4=())

    assert CommittedMembership((1, 2, 3)).without_quorum(_set(7), disks) is None
    assert CommittedMembership((1, 2, 3, 4)).without_quorum(_set(7), disks) == (
        "quorum: 0x7 committed and durable only on [1, 2] of [1, 2, 3, 4]"
    )


def test_reconfiguration_needs_a_quorum_of_old_and_new_voters() -> None:
    change = _set(7, _server(3, 4, 5), OpCode.RECONFIG)

    assert CommittedMembership((1, 2, 3)).without_quorum(change, _disks(p1=(7,), p3=(7,), p4=(7,), p5=())) is None
    assert CommittedMembership((1, 2, 3)).without_quorum(change, _disks(p1=(7,), p2=(7,), p3=(7,))) == (
        "quorum: 0x7 committed and durable only on [3] of [3, 4, 5]"
    )
    assert CommittedMembership((1, 2, 3)).without_quorum(change, _disks(p3=(7,), p4=(7,), p5=(7,))) == (
        "quorum: 0x7 committed and durable only on [3] of [1, 2, 3]"
    )


def test_commit_after_a_reconfiguration_needs_only_new_voters() -> None:
    membership = CommittedMembership((1, 2, 3))
    membership.without_quorum(_set(7, _server(3, 4, 5), OpCode.RECONFIG), _disks(p1=(7,), p3=(7,), p4=(7,)))

    assert membership.without_quorum(_set(8), _disks(p4=(8,), p5=(8,))) is None
    assert membership.without_quorum(_set(9), _disks(p1=(9,), p2=(9,), p3=(9,))) is not None
