"""The driver processes all frames of an event loop iteration in one turn of the peer.

It sends some of the turn's output before the turn ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
import structlog

from zabka.ensemble.ids import ConnectionId, Epoch, LinkId, Zxid
from zabka.ensemble.records import OpCode, Reply, Request
from zabka.ensemble.server.config.limits import Limits
from zabka.ensemble.server.net.admission import Admission
from zabka.ensemble.server.process.driver import PeerDriver
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txnlog.losses import DAMAGE_FOUND
from zabka.ensemble.txnlog.recovery import Recovery
from zabka.ensemble.zab.effects import Answer, Append, Barrier, Effect, Recovered, SaveSnapshot, SendPackets
from zabka.ensemble.zab.messages import Commit, PeerState
from zabka.journal.events import LogDamageFound, PeerProtocolBroken

ONE, TWO = ConnectionId(1), ConnectionId(2)
EARLY: list[Effect] = [SendPackets(LinkId(1), [Commit(Zxid(5))]), Append([]), Barrier(1)]
REST: list[Effect] = [Answer(ONE, Reply(7, 5, 0))]


class FakePeer:
    """Fake peer that records its turns. Each turn returns some output early and the rest at its end."""

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes
        self.state = PeerState.LEADING
        self.outstanding = 1
        self.outlet: Callable[[list[Effect]], None] = lambda effects: None

    def hand_effects_to(self, outlet: Callable[[list[Effect]], None]) -> None:
        self.outlet = outlet

    def on_clients(self, now: object, messages: list[tuple[ConnectionId, Request]]) -> list[Effect]:
        self.notes.append([(connection, message.xid) for connection, message in messages])
        self.outlet(EARLY)
        self.notes.append("applied")
        return REST

    def on_packets(self, now: object, link: LinkId, packets: list[Commit]) -> list[Effect]:
        self.notes.append([packet.zxid for packet in packets])
        return [SendPackets(link, [Commit(Zxid(7))])]

    def on_durable(self, now: object, token: int) -> list[Effect]:
        self.notes.append(f"durable {token}")
        return [SendPackets(LinkId(1), [Commit(Zxid(6))])]

    def on_recovered(self, now: object, recovered: Recovered) -> list[Effect]:
        self.notes.append("goes on")
        return []

    def on_client_closed(self, now: object, connection: ConnectionId) -> list[Effect]:
        self.notes.append(f"closed {connection}")
        return []

    def on_snapshot_spoiled(self, now: object) -> list[Effect]:
        self.notes.append("wants a snapshot")
        return []


class FakePorts:
    """Fake of the quorum port, the storage and the client port in one."""

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes
        self.queued: list[str] = []
        self.quick = False
        self.admission = Admission(Limits(), lambda: 0.5, 0)
        self.when_durable: Callable[[], None] = lambda: None

    def send(self, link: LinkId, packets: list[Any]) -> None:
        self.queued.append("commit")

    def is_open(self, link: LinkId) -> bool:
        return True

    def answer(self, connection: ConnectionId, message: object) -> None:
        self.queued.append("answer")

    def flush(self) -> None:
        self.notes += self.queued
        self.queued.clear()

    def flush_last_active(self) -> None:
        self.notes.append("to who asked")

    def submit(self, effects: list[Effect]) -> None:
        self.notes.append([type(effect).__name__ for effect in effects])

    def take_snapshot(self, snapshot: TreeSnapshot) -> None:
        self.notes.append(f"snapshot of {snapshot.zxid}")

    def is_quick(self, effects: list[Effect]) -> bool:
        return self.quick

    def carry_out(self, effects: list[Effect]) -> None:
        self.notes.append(["at once", *(type(effect).__name__ for effect in effects)])
        self.when_durable()


def a_request(xid: int) -> Request:
    return Request(xid, OpCode.SYNC, None)


class FakeJournal:
    """Journal that records nothing."""

    def write(self, event: object) -> None:
        return

    def flush(self) -> None:
        return


async def driver_and_notes() -> tuple[PeerDriver, list[Any]]:
    driver, _, notes = await driver_and_ports()
    return driver, notes


async def driver_and_ports(
    voters: tuple[int, ...] = (1, 2, 3),
    state: PeerState = PeerState.LEADING,
    kind: type[FakePeer] = FakePeer,
) -> tuple[PeerDriver, FakePorts, list[Any]]:
    notes: list[Any] = []
    fake, journal = kind(notes), cast(Any, FakeJournal())
    fake.state = state
    driver = PeerDriver(cast(Any, fake), cast(Any, None), journal, voters, structlog.get_logger())
    ports = FakePorts(notes)
    driver.quorum = driver.storage = driver.clients = cast(Any, ports)
    return driver, ports, notes


async def driver_with_two_links(
    voters: tuple[int, ...], state: PeerState, kind: type[FakePeer] = FakePeer
) -> tuple[PeerDriver, FakePorts, FakePorts, list[Any]]:
    """Return a driver with a disk that needs no time, fake client connections, and two links to other servers."""
    driver, clients, notes = await driver_and_ports(voters, state, kind)
    others = FakePorts(notes)
    driver.quorum = driver.storage = cast(Any, others)
    others.quick, others.when_durable = True, lambda: driver.on_durable([1])
    return driver, clients, others, notes


def test_requests_of_one_loop_iteration_are_handled_together() -> None:
    async def run() -> list[Any]:
        driver, notes = await driver_and_notes()
        driver.on_client_messages(ONE, [a_request(1), a_request(2)])
        driver.on_client_messages(TWO, [a_request(9)])
        assert not notes
        assert driver.clients is not None
        driver.clients.admission.hand_over(ONE, [a_request(1), a_request(2)])
        await asyncio.sleep(0)
        assert not driver.clients.admission.handed_over, "a turn has taken them"
        return notes

    turn = [(ONE, 1), (ONE, 2), (TWO, 9)]
    assert asyncio.run(run()) == [turn, "commit", ["Append", "Barrier"], "applied", "answer"]


def test_reply_in_the_same_iteration_does_not_pause_its_client() -> None:
    """Replies that are sent during a turn no longer count as outstanding when the port decides whether to read.

    The port does not check a client again if the client has no outstanding replies. With an outdated count, the port
    would therefore never read from that client again.
    """

    async def run() -> list[int]:
        driver, ports, _ = await driver_and_ports()
        counted: list[int] = []
        cast(Any, ports).flush = lambda: counted.append(len(ports.admission.handed_over))
        ports.admission.hand_over(ONE, [a_request(1)])
        driver.on_client_messages(ONE, [a_request(1)])
        await asyncio.sleep(0)
        return counted

    assert set(asyncio.run(run())) == {0}


def test_requests_sent_before_a_disconnect_are_processed() -> None:
    async def run() -> list[Any]:
        driver, notes = await driver_and_notes()
        driver.on_client_messages(ONE, [a_request(1)])
        driver.on_client_closed(ONE)
        return list(notes)

    notes = asyncio.run(run())
    assert notes[0] == [(ONE, 1)] and notes[-1] == f"closed {ONE}"


@pytest.mark.parametrize(("voters", "outstanding"), [((1, 2, 3, 4, 5), 1), ((1, 2, 3), 2), ((1, 2, 3), 1)])
def test_fast_disk_syncs_right_after_quorum_messages_are_handled(voters: tuple[int, ...], outstanding: int) -> None:
    async def run() -> list[Any]:
        driver, clients, _, notes = await driver_with_two_links(voters, PeerState.LEADING)
        cast(Any, driver)._peer.outstanding = outstanding
        clients.queued.append("answer")
        driver.on_packets(LinkId(1), commits(1))
        driver.on_client_messages(ONE, [a_request(1)])
        notes.clear()
        await asyncio.sleep(0)
        return notes

    turn, sync = [(ONE, 1)], ["at once", "Append", "Barrier"]
    # With three voters and one outstanding transaction, the leader sends the proposal to the third server only after
    # its own disk write.
    asked = ["to who asked"] if len(voters) == 3 and outstanding == 1 else []
    assert asyncio.run(run()) == [turn, "commit", "applied", *asked, "answer", sync, "durable 1", "commit"]


class Follower(FakePeer):
    """Fake follower. It forwards requests to the leader, and logs and acknowledges the packets that it receives."""

    def on_clients(self, now: object, messages: list[tuple[ConnectionId, Request]]) -> list[Effect]:
        return []

    def on_packets(self, now: object, link: LinkId, packets: list[Commit]) -> list[Effect]:
        return [Append([]), Barrier(1)] if packets == commits(1) else REST


@pytest.mark.parametrize(("client_waits", "outstanding"), [(True, 1), (True, 2), (False, 1)])
def test_busy_follower_reads_its_leader_before_it_acknowledges(client_waits: bool, outstanding: int) -> None:
    async def run() -> list[Any]:
        driver, _, _, notes = await driver_with_two_links((1, 2, 3), PeerState.FOLLOWING, Follower)
        cast(Any, driver)._peer.outstanding = outstanding
        if client_waits:
            driver.on_client_messages(ONE, [a_request(1)])
            await asyncio.sleep(0)
        driver.on_packets(LinkId(1), commits(1))
        # The leader sends another packet in the same event loop iteration.
        asyncio.get_running_loop().call_soon(driver.on_packets, LinkId(1), commits(2))
        for _ in range(3):
            await asyncio.sleep(0)
        return [each for each in notes if isinstance(each, str)]

    held = client_waits and outstanding == 1
    acknowledged = ["durable 1", "answer", "commit"] if held else ["durable 1", "commit", "answer"]
    assert [each for each in asyncio.run(run()) if each != "to who asked"] == acknowledged


def test_stopped_peer_finishes_its_disk_work_and_gets_no_input() -> None:
    async def run() -> list[Any]:
        driver, ports, notes = await driver_and_ports()
        ports.quick = True
        ports.when_durable = lambda: driver.on_durable([1])
        driver.on_client_messages(ONE, [a_request(1)])
        driver.on_client_closed(ONE)
        driver.stop()
        await asyncio.sleep(0)
        await driver.finished()
        return notes

    notes = asyncio.run(run())
    assert notes[-1] == ["Append", "Barrier"]


def commits(*numbers: int) -> list[Any]:
    return [Commit(Zxid(number)) for number in numbers]


def test_few_packets_are_processed_and_committed_immediately() -> None:
    async def run() -> list[Any]:
        driver, notes = await driver_and_notes()
        driver.on_packets(LinkId(1), commits(1, 2))
        return list(notes)

    assert asyncio.run(run()) == [[1, 2], "commit"]


def test_sync_by_the_storage_thread_is_reported_immediately() -> None:
    async def run() -> list[Any]:
        driver, notes = await driver_and_notes()
        driver.on_durable([1, 2])
        return list(notes)

    assert asyncio.run(run()) == ["durable 2", "commit"]


def test_commits_are_delayed_until_all_received_packets_are_read() -> None:
    async def run() -> list[Any]:
        driver, notes = await driver_and_notes()
        driver.on_packets(LinkId(1), commits(1, 2, 3))
        driver.on_packets(LinkId(2), commits(4))
        assert notes == [[1, 2, 3], [4]]
        await asyncio.sleep(0)
        return notes

    assert asyncio.run(run()) == [[1, 2, 3], [4], "commit", "commit"]


def test_packets_are_processed_after_earlier_client_requests() -> None:
    async def run() -> list[Any]:
        driver, notes = await driver_and_notes()
        driver.on_client_messages(ONE, [a_request(1)])
        driver.on_packets(LinkId(1), commits(1))
        assert notes == [[1]]
        await asyncio.sleep(0)
        return notes

    notes = asyncio.run(run())
    assert notes == [[1], [(ONE, 1)], "commit", "commit", ["Append", "Barrier"], "applied", "answer"]


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(
    "damages", [[], [LogDamageFound("log.1", 16, "bad checksum", "set aside")]], ids=["", "damaged"]
)
def test_truncation_of_a_damaged_log_restarts_the_peer(damages: list[LogDamageFound], complete: bool) -> None:
    """If a truncation finds that the log has lost records, the peer restarts.

    The running peer's tree and its earlier messages depend on the lost records. A peer that already knew that its log
    is incomplete is truncated without a restart.
    """

    async def run() -> list[Any]:
        driver, notes = await driver_and_notes()
        driver.restart = notes.append
        driver.on_truncated(Recovery(Recovered(Epoch(1), Epoch(1), None, [], complete), damages))
        return notes

    assert asyncio.run(run()) == ["goes on" if complete or not damages else DAMAGE_FOUND]


def test_snapshot_damage_found_on_disk_is_reported_to_the_peer() -> None:
    """A damaged snapshot on disk is reported to the peer, which then needs a new snapshot.

    After a TRUNC, the peer's own tree still contains truncated transactions until its callback runs.
    """

    async def run() -> list[Any]:
        driver, notes = await driver_and_notes()
        driver.on_snapshot_spoiled()
        return notes

    assert asyncio.run(run()) == ["wants a snapshot"]


class AppliesAtOnce(FakePeer):
    """Fake peer that logs and applies a transaction in one turn, and then saves a snapshot.

    A learner does so if it receives a proposal and its commit together.
    """

    def on_packets(self, now: object, link: LinkId, packets: list[Commit]) -> list[Effect]:
        snapshot = TreeSnapshot(packets[-1].zxid, {}, [], 0)
        return [Append([]), Barrier(1), SaveSnapshot(snapshot, replaces_history=False)]


def test_snapshot_is_published_after_its_transactions_are_logged() -> None:
    """A snapshot becomes visible on disk only after its transactions are in the log.

    Otherwise a crash between the two would leave a gap: the log continues after the newer snapshot, so a recovery from
    an older snapshot would skip the transactions in between.
    """

    async def run() -> list[Any]:
        driver, _, notes = await driver_and_ports(kind=AppliesAtOnce)
        driver.on_packets(LinkId(1), [Commit(Zxid(5))])
        return notes

    assert asyncio.run(run()) == [["Append", "Barrier"], "snapshot of 5"]


def test_invalid_frames_between_peers_are_logged_once_a_second() -> None:
    async def run() -> list[Any]:
        due: list[tuple[float, Callable[[], None]]] = []
        loop = cast(Any, asyncio.get_running_loop())
        loop.call_later = lambda delay_s, callback: due.append((delay_s, callback))
        driver, _ = await driver_and_notes()
        journal = cast(Any, driver)._journal
        written: list[Any] = []
        journal.write = written.append
        for number in range(3_000):
            driver.on_peer_broken("10.0.0.9:5", f"bad frame {number}")
        assert [delay_s for delay_s, _ in due] == [1]
        due[0][1]()
        return written

    first, rest = asyncio.run(run())
    assert first == PeerProtocolBroken("10.0.0.9:5", "bad frame 0", 1)
    assert rest == PeerProtocolBroken("10.0.0.9:5", "bad frame 2999", 2_999)
