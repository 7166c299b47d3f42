"""What the driver joins: the frames of a round of the event loop, and what a turn gives out while it goes on."""

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
    """Notes its turns; each gives something out early and the rest at its end."""

    def __init__(self, said: list[Any]) -> None:
        self.said = said
        self.state = PeerState.LEADING
        self.outstanding = 1
        self.outlet: Callable[[list[Effect]], None] = lambda effects: None

    def hand_effects_to(self, outlet: Callable[[list[Effect]], None]) -> None:
        self.outlet = outlet

    def on_clients(self, now: object, messages: list[tuple[ConnectionId, Request]]) -> list[Effect]:
        self.said.append([(connection, message.xid) for connection, message in messages])
        self.outlet(EARLY)
        self.said.append("applied")
        return REST

    def on_packets(self, now: object, link: LinkId, packets: list[Commit]) -> list[Effect]:
        self.said.append([packet.zxid for packet in packets])
        return [SendPackets(link, [Commit(Zxid(7))])]

    def on_durable(self, now: object, token: int) -> list[Effect]:
        self.said.append(f"durable {token}")
        return [SendPackets(LinkId(1), [Commit(Zxid(6))])]

    def on_recovered(self, now: object, recovered: Recovered) -> list[Effect]:
        self.said.append("goes on")
        return []

    def on_client_closed(self, now: object, connection: ConnectionId) -> list[Effect]:
        self.said.append(f"closed {connection}")
        return []

    def on_snapshot_spoiled(self, now: object) -> list[Effect]:
        self.said.append("wants a snapshot")
        return []


class FakePorts:
    """Stands for the quorum port, the storage and the client port."""

    def __init__(self, said: list[Any]) -> None:
        self.said = said
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
        self.said += self.queued
        self.queued.clear()

    def flush_last_active(self) -> None:
        self.said.append("to who asked")

    def submit(self, effects: list[Effect]) -> None:
        self.said.append([type(effect).__name__ for effect in effects])

    def take_snapshot(self, snapshot: TreeSnapshot) -> None:
        self.said.append(f"snapshot of {snapshot.zxid}")

    def is_quick(self, effects: list[Effect]) -> bool:
        return self.quick

    def carry_out(self, effects: list[Effect]) -> None:
        self.said.append(["at once", *(type(effect).__name__ for effect in effects)])
        self.when_durable()


def a_request(xid: int) -> Request:
    return Request(xid, OpCode.SYNC, None)


class FakeJournal:
    """Nothing is written here."""

    def write(self, event: object) -> None:
        return

    def flush(self) -> None:
        return


async def driver_and_notes() -> tuple[PeerDriver, list[Any]]:
    driver, _, said = await driver_and_ports()
    return driver, said


async def driver_and_ports(
    voters: tuple[int, ...] = (1, 2, 3),
    state: PeerState = PeerState.LEADING,
    kind: type[FakePeer] = FakePeer,
) -> tuple[PeerDriver, FakePorts, list[Any]]:
    said: list[Any] = []
    fake, journal = kind(said), cast(Any, FakeJournal())
    fake.state = state
    driver = PeerDriver(cast(Any, fake), cast(Any, None), journal, voters, structlog.get_logger())
    ports = FakePorts(said)
    driver.quorum = driver.storage = driver.clients = cast(Any, ports)
    return driver, ports, said


async def driver_with_two_links(
    voters: tuple[int, ...], state: PeerState, kind: type[FakePeer] = FakePeer
) -> tuple[PeerDriver, FakePorts, FakePorts, list[Any]]:
    """What stands for its clients' connections is told from its links to others; the disk is quick."""
    driver, clients, said = await driver_and_ports(voters, state, kind)
    others = FakePorts(said)
    driver.quorum = driver.storage = cast(Any, others)
    others.quick, others.when_durable = True, lambda: driver.on_durable([1])
    return driver, clients, others, said


def test_frames_of_many_clients_in_one_round_are_one_turn_whose_first_part_leaves_before_the_rest() -> None:
    async def run() -> list[Any]:
        driver, said = await driver_and_notes()
        driver.on_client_messages(ONE, [a_request(1), a_request(2)])
        driver.on_client_messages(TWO, [a_request(9)])
        assert not said
        assert driver.clients is not None
        driver.clients.admission.hand_over(ONE, [a_request(1), a_request(2)])
        await asyncio.sleep(0)
        assert not driver.clients.admission.handed_over, "a turn has taken them"
        return said

    turn = [(ONE, 1), (ONE, 2), (TWO, 9)]
    assert asyncio.run(run()) == [turn, "commit", ["Append", "Barrier"], "applied", "answer"]


def test_what_a_turn_gives_out_while_it_goes_on_is_not_counted_as_if_no_turn_had_taken_it() -> None:
    """Who has all its answers by then is not looked at again: its count would stay, and it would not be read from."""

    async def run() -> list[int]:
        driver, ports, _ = await driver_and_ports()
        counted: list[int] = []
        cast(Any, ports).flush = lambda: counted.append(len(ports.admission.handed_over))
        ports.admission.hand_over(ONE, [a_request(1)])
        driver.on_client_messages(ONE, [a_request(1)])
        await asyncio.sleep(0)
        return counted

    assert set(asyncio.run(run())) == {0}


def test_requests_that_a_client_sent_count_before_its_disconnect() -> None:
    async def run() -> list[Any]:
        driver, said = await driver_and_notes()
        driver.on_client_messages(ONE, [a_request(1)])
        driver.on_client_closed(ONE)
        return list(said)

    said = asyncio.run(run())
    assert said[0] == [(ONE, 1)] and said[-1] == f"closed {ONE}"


@pytest.mark.parametrize(("voters", "outstanding"), [((1, 2, 3, 4, 5), 1), ((1, 2, 3), 2), ((1, 2, 3), 1)])
def test_a_quick_disk_is_waited_for_once_others_have_what_a_quorum_needs_and_what_follows_is_of_the_same_round(
    voters: tuple[int, ...], outstanding: int
) -> None:
    async def run() -> list[Any]:
        driver, clients, _, said = await driver_with_two_links(voters, PeerState.LEADING)
        cast(Any, driver)._peer.outstanding = outstanding
        clients.queued.append("answer")
        driver.on_packets(LinkId(1), commits(1))
        driver.on_client_messages(ONE, [a_request(1)])
        said.clear()
        await asyncio.sleep(0)
        return said

    turn, sync = [(ONE, 1)], ["at once", "Append", "Barrier"]
    # With three voters and one transaction under way the third server's copy is sent behind the disk's work.
    asked = ["to who asked"] if len(voters) == 3 and outstanding == 1 else []
    assert asyncio.run(run()) == [turn, "commit", "applied", *asked, "answer", sync, "durable 1", "commit"]


class Follower(FakePeer):
    """It only passes requests on; what it is told it logs, and acknowledges."""

    def on_clients(self, now: object, messages: list[tuple[ConnectionId, Request]]) -> list[Effect]:
        return []

    def on_packets(self, now: object, link: LinkId, packets: list[Commit]) -> list[Effect]:
        return [Append([]), Barrier(1)] if packets == commits(1) else REST


@pytest.mark.parametrize(("client_waits", "outstanding"), [(True, 1), (True, 2), (False, 1)])
def test_a_follower_whose_client_waits_hears_its_leader_out_before_it_says_what_is_durable(
    client_waits: bool, outstanding: int
) -> None:
    async def run() -> list[Any]:
        driver, _, _, said = await driver_with_two_links((1, 2, 3), PeerState.FOLLOWING, Follower)
        cast(Any, driver)._peer.outstanding = outstanding
        if client_waits:
            driver.on_client_messages(ONE, [a_request(1)])
            await asyncio.sleep(0)
        driver.on_packets(LinkId(1), commits(1))
        # The leader's word has come meanwhile.
        asyncio.get_running_loop().call_soon(driver.on_packets, LinkId(1), commits(2))
        for _ in range(3):
            await asyncio.sleep(0)
        return [each for each in said if isinstance(each, str)]

    held = client_waits and outstanding == 1
    acknowledged = ["durable 1", "answer", "commit"] if held else ["durable 1", "commit", "answer"]
    assert [each for each in asyncio.run(run()) if each != "to who asked"] == acknowledged


def test_a_peer_that_stops_leaves_the_rest_to_the_disks_thread_and_hears_nothing_more() -> None:
    async def run() -> list[Any]:
        driver, ports, said = await driver_and_ports()
        ports.quick = True
        ports.when_durable = lambda: driver.on_durable([1])
        driver.on_client_messages(ONE, [a_request(1)])
        driver.on_client_closed(ONE)
        driver.stop()
        await asyncio.sleep(0)
        await driver.finished()
        return said

    said = asyncio.run(run())
    assert said[-1] == ["Append", "Barrier"]


def commits(*numbers: int) -> list[Any]:
    return [Commit(Zxid(number)) for number in numbers]


def test_a_few_packets_of_another_server_are_a_round_of_their_own() -> None:
    async def run() -> list[Any]:
        driver, said = await driver_and_notes()
        driver.on_packets(LinkId(1), commits(1, 2))
        return list(said)

    assert asyncio.run(run()) == [[1, 2], "commit"]


def test_a_sync_of_the_storage_thread_is_reported_at_once() -> None:
    async def run() -> list[Any]:
        driver, said = await driver_and_notes()
        driver.on_durable([1, 2])
        return list(said)

    assert asyncio.run(run()) == ["durable 2", "commit"]


def test_many_packets_wait_for_what_else_comes_in_their_round() -> None:
    async def run() -> list[Any]:
        driver, said = await driver_and_notes()
        driver.on_packets(LinkId(1), commits(1, 2, 3))
        driver.on_packets(LinkId(2), commits(4))
        assert said == [[1, 2, 3], [4]]
        await asyncio.sleep(0)
        return said

    assert asyncio.run(run()) == [[1, 2, 3], [4], "commit", "commit"]


def test_packets_behind_a_clients_frames_leave_with_what_those_ask_for() -> None:
    async def run() -> list[Any]:
        driver, said = await driver_and_notes()
        driver.on_client_messages(ONE, [a_request(1)])
        driver.on_packets(LinkId(1), commits(1))
        assert said == [[1]]
        await asyncio.sleep(0)
        return said

    said = asyncio.run(run())
    assert said == [[1], [(ONE, 1)], "commit", "commit", ["Append", "Barrier"], "applied", "answer"]


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(
    "damages", [[], [LogDamageFound("log.1", 16, "bad checksum", "set aside")]], ids=["", "damaged"]
)
def test_a_peer_begins_anew_where_a_truncation_finds_that_the_log_lost_something(
    damages: list[LogDamageFound], complete: bool
) -> None:
    """Its tree and what it told others rest on what the disk has not any more.  An incomplete peer may be truncated."""

    async def run() -> list[Any]:
        driver, said = await driver_and_notes()
        driver.restart = said.append
        driver.on_truncated(Recovery(Recovered(Epoch(1), Epoch(1), None, [], complete), damages))
        return said

    assert asyncio.run(run()) == ["goes on" if complete or not damages else DAMAGE_FOUND]


def test_whether_another_snapshot_may_be_taken_now_is_the_peers_decision() -> None:
    """Between a TRUNC on the disk and the peer's word its tree holds what was cut."""

    async def run() -> list[Any]:
        driver, said = await driver_and_notes()
        driver.on_snapshot_spoiled()
        return said

    assert asyncio.run(run()) == ["wants a snapshot"]


class AppliesAtOnce(FakePeer):
    """Logs and applies in one turn, as a learner that hears of a proposal and its commit together, and then wants a
    snapshot."""

    def on_packets(self, now: object, link: LinkId, packets: list[Commit]) -> list[Effect]:
        snapshot = TreeSnapshot(packets[-1].zxid, {}, [], 0)
        return [Append([]), Barrier(1), SaveSnapshot(snapshot, replaces_history=False)]


def test_a_snapshot_counts_behind_the_log_that_its_own_turn_has_yet_to_write() -> None:
    """What it covers is in the log first, or a crash between them leaves a hole: an older snapshot and the log that
    goes on behind the newer one would pass over what that one covered."""

    async def run() -> list[Any]:
        driver, _, said = await driver_and_ports(kind=AppliesAtOnce)
        driver.on_packets(LinkId(1), [Commit(Zxid(5))])
        return said

    assert asyncio.run(run()) == [["Append", "Barrier"], "snapshot of 5"]


def test_bad_frames_between_peers_are_counted_and_said_once_a_second() -> None:
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
