"""Injected bugs of histories on disk.

Each reverts the fix of a bug by which committed history was lost or diverged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import msgspec

from tests.simulation.injecting import broken
from zabka.ensemble.ids import PeerId, Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.txn import Txn
from zabka.ensemble.txnlog import log_reading, newest_log
from zabka.ensemble.txnlog.log_reading import LogReader
from zabka.ensemble.zab import leader as leader_rules
from zabka.ensemble.zab import learner_sync
from zabka.ensemble.zab.core import Core
from zabka.ensemble.zab.effects import Effect, ReadLog, SaveSnapshot
from zabka.ensemble.zab.election import Election
from zabka.ensemble.zab.following import Following
from zabka.ensemble.zab.leader import HALF_TICK_TIMER, INIT_TIMER, Leader
from zabka.ensemble.zab.learner import Learner
from zabka.ensemble.zab.learner_link import LearnerLink
from zabka.ensemble.zab.messages import NewLeader, Notification, PeerState
from zabka.ensemble.zab.peer import Peer
from zabka.ensemble.zab.sync import follows


@contextmanager
def digests_that_differ_are_counted() -> Iterator[None]:
    """Injected bug: a learner whose tree differs from its leader's only counts the difference.

    It continues with its own tree.
    """
    with broken(Learner, on_tree_differs=lambda self: None):
        yield


class _WhateverMayFollow(dict[Zxid, Any]):
    """Replacement for the known last zxids of epochs: it accepts any transaction as the last one of its epoch.

    The first transaction of any later epoch can then follow.
    """

    def get(self, last: Any, default: Any = None) -> Any:
        return _After(last)


class _After:
    """Value that is equal to every zxid that can follow `last`."""

    def __init__(self, last: int) -> None:
        self._last = last

    def __eq__(self, zxid: object) -> bool:
        return isinstance(zxid, int) and follows(self._last, zxid)

    def __ne__(self, zxid: object) -> bool:
        return not self == zxid

    __hash__ = None  # type: ignore[assignment]


@contextmanager
def the_log_is_read_by_its_numbers() -> Iterator[None]:
    """Injected bug: the log that is read for a learner is checked only by its zxids.

    Each zxid only has to be a possible successor of the previous one. The transactions need not belong to the leader's
    history. If the learner's digests differ, the learner counts the differences and takes no other action.
    """
    read, send = LogReader.read, learner_sync.send_from_log

    def by_numbers(self: LogReader, wanted: ReadLog) -> list[Txn] | None:
        return read(self, msgspec.structs.replace(wanted, borders=_WhateverMayFollow()))

    def send_by_numbers(core: Core, peer: LearnerLink, txns: Sequence[Txn] | None) -> Any:
        borders, core.borders = core.borders, _WhateverMayFollow()
        progress = send(core, peer, txns)
        core.borders = borders
        return progress

    with (
        digests_that_differ_are_counted(),
        broken(LogReader, read=by_numbers),
        broken(leader_rules, send_from_log=send_by_numbers),
    ):
        yield


@contextmanager
def reading_continues_after_damage() -> Iterator[None]:
    """Injected bug: reading continues in the next file after an incomplete record.

    The transactions in between are lost.
    """

    records_in = log_reading._records_in

    def lenient(*where: Any) -> Iterator[tuple[int, bytes]]:
        with suppress(log_reading._NotWhole):
            yield from records_in(*where)

    with the_log_is_read_by_its_numbers(), broken(log_reading, _records_in=lenient):
        yield


@contextmanager
def a_log_that_breaks_off_is_tried_again() -> Iterator[None]:
    """Injected bug: a leader that could not read its whole log does not remember this.

    It tries again to read the log for the next synchronization.
    """
    send = learner_sync.send_from_log

    def forgetful(core: Core, peer: LearnerLink, txns: Sequence[Txn] | None) -> Any:
        progress = send(core, peer, txns)
        core.unreadable_after = Zxid(-1)
        return progress

    with broken(leader_rules, send_from_log=forgetful):
        yield


@contextmanager
def places_in_the_log_outlive_what_was_there() -> Iterator[None]:
    """Injected bug: the positions remembered for learners are not discarded when the log is truncated."""
    with the_log_is_read_by_its_numbers(), broken(LogReader, forget_positions=lambda self: None):
        yield


@contextmanager
def who_has_lost_history_is_elected_for_its_past() -> Iterator[None]:
    """Injected bug: a peer that has lost transactions becomes leader if others vote for it.

    The other peers voted for its previous process, which had these transactions.
    """
    on_notification = Election.on_notification

    def believing(self: Election, src: PeerId, notification: Notification) -> None:
        core = self._core
        incomplete = core.incomplete
        if notification.state is not PeerState.LOOKING:
            core.incomplete = False
        on_notification(self, src, notification)
        core.incomplete = incomplete

    def start(self: Leader) -> None:
        core = self._core
        core.set_timer(INIT_TIMER, core.ticks_ms(core.config.init_limit))
        core.set_timer(HALF_TICK_TIMER, core.config.tick_time_ms // 2)
        self._open_epoch_with_quorum()

    with broken(Election, on_notification=believing), broken(Leader, start=start):
        yield


@contextmanager
def a_spoiled_snapshot_is_made_good_at_once() -> Iterator[None]:
    """Injected bug: a damaged snapshot is replaced at once with a snapshot of the current tree."""

    def at_once(self: Peer, now: Instant) -> list[Effect]:
        core = self._core
        core.now = now
        core.to_disk(SaveSnapshot(core.application.snapshot(), replaces_history=False))
        return self._finish()

    with broken(Peer, on_snapshot_spoiled=at_once):
        yield


@contextmanager
def who_has_lost_history_serves_what_its_leader_knows() -> Iterator[None]:
    """Injected bug: a peer that has lost transactions accepts requests and votes too early.

    It should wait for all proposed transactions. It waits only for those that its leader knows to be committed.
    """
    on_newleader = Learner._on_newleader

    def whole(self: Learner, packet: NewLeader) -> None:
        core = self._core
        incomplete, core.incomplete = core.incomplete, False
        on_newleader(self, packet)
        core.incomplete = incomplete

    with broken(Learner, _on_newleader=whole):
        yield


@contextmanager
def who_has_lost_history_votes_with_what_its_leader_knows() -> Iterator[None]:
    """Injected bug: a peer that has lost transactions votes too early.

    It votes once it has the transactions that its leader knows to be committed. Unlike in
    `who_has_lost_history_serves_what_its_leader_knows`, it accepts requests only once it has all proposed transactions.
    """
    begin = Following.start_serving

    def later(self: Following, proposed: Sequence[Txn], *, logged: int, committed: int) -> None:
        serve = self._serve
        self._serve = lambda: None  # type: ignore[method-assign]
        begin(self, proposed, logged=logged, committed=committed)
        self._serve = serve  # type: ignore[method-assign]
        self._lacks = proposed[-1].zxid if proposed else Zxid(0)

    with who_has_lost_history_serves_what_its_leader_knows(), broken(Following, start_serving=later):
        yield


@contextmanager
def a_log_that_is_gone_is_not_missed() -> Iterator[None]:
    """Injected bug: a start treats the files that it finds as the complete history, even if a log is missing."""
    with broken(newest_log, noted=lambda *where: None):
        yield


INJECTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "the log is read by its numbers": the_log_is_read_by_its_numbers,
    "reading goes on behind damage": reading_continues_after_damage,
    "a log that breaks off is tried again": a_log_that_breaks_off_is_tried_again,
    "places in the log outlive what was there": places_in_the_log_outlive_what_was_there,
    "who has lost history is elected for its past": who_has_lost_history_is_elected_for_its_past,
    "a spoiled snapshot is made good at once": a_spoiled_snapshot_is_made_good_at_once,
    "who has lost history serves what its leader knows": who_has_lost_history_serves_what_its_leader_knows,
    "who has lost history votes with what its leader knows": who_has_lost_history_votes_with_what_its_leader_knows,
    "a log that is gone is not missed": a_log_that_is_gone_is_not_missed,
    "digests that differ are counted": digests_that_differ_are_counted,
}
"""Injected bugs, keyed by name. For each bug, `tests.simulation.scenarios.pairs` has a script that shows it."""
