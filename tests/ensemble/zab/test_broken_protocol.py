"""Packets that are valid in the current protocol step, but whose content is wrong or unusable for the peer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.ensemble.zab.list_application import ListApplication
from tests.ensemble.zab.zab_solo import E1, LINK, Solo, request, tree, txn
from zabka.ensemble.ids import Epoch, LinkId, PeerId, SessionId, Zxid, make_zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import OpCode
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txn import DeleteTxn, SetDataTxn, Txn
from zabka.ensemble.zab import observer_master, peer
from zabka.ensemble.zab.application import LAPSING_TIMER, LOCAL_SESSIONS_TIMER
from zabka.ensemble.zab.effects import CloseLink, Effect, Emit, Halt, TruncateLog
from zabka.ensemble.zab.learner import FORCE_SNAP_ZXID
from zabka.ensemble.zab.membership import BadMembership
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    ForwardedRequest,
    Inform,
    LeaderInfo,
    NewLeader,
    Packet,
    PeerState,
    Ping,
    Proposal,
    Revalidate,
    Snap,
    SyncRequest,
    Trunc,
    UpToDate,
)
from zabka.ensemble.zab.observer_master import MASTER_TIMER
from zabka.ensemble.zab.reconfiguration import membership_in
from zabka.journal.events import InvariantViolated, PeerProtocolBroken

Z11, Z12, Z15 = (make_zxid(1, n) for n in (1, 2, 5))
OBSERVERS, AGAIN = LinkId(20), LinkId(21)
TICK_MS = 100


def closed(solo: Solo, effects: list[Effect]) -> list[LinkId]:
    return [effect.link for effect in solo.of(CloseLink, effects)]


def broken(solo: Solo, effects: list[Effect]) -> bool:
    return any(isinstance(effect.event, PeerProtocolBroken) for effect in solo.of(Emit, effects))


def epoch_accepted(**options: object) -> Solo:
    solo = Solo(**options)  # type: ignore[arg-type]
    solo.follow()
    return solo


# -- a faulty leader -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "packets",
    [
        pytest.param([Trunc(Z11)], id="TRUNC to where this log does not reach"),
        pytest.param([Diff(Z12), Proposal([txn(1, 2)])], id="a first transaction that is missing"),
        pytest.param([Diff(Z12), Proposal([txn(1, 1), txn(1, 3)])], id="one between"),
        pytest.param([Diff(Z12), Proposal([txn(1, 1), txn(1, 1)])], id="one that comes twice"),
        pytest.param([Diff(Z12), Proposal([txn(1, 1)]), Inform(txn(1, 3))], id="an INFORM too far"),
        pytest.param([Diff(Z12), Proposal([txn(1, 1), txn(1, 2)]), Commit(Z12)], id="COMMIT of the second first"),
        pytest.param([Diff(Z12), Commit(Z11)], id="COMMIT of what was not proposed"),
        pytest.param([Diff(Zxid(0)), NewLeader(make_zxid(2, 0))], id="NEWLEADER of another epoch"),
        pytest.param([Diff(Zxid(0)), NewLeader(make_zxid(1, 1))], id="NEWLEADER with a counter"),
    ],
)
def test_follower_disconnects_from_leader_with_invalid_history(packets: list[Packet]) -> None:
    solo = epoch_accepted()
    effects = [effect for packet in packets for effect in solo.packet(packet)]
    assert broken(solo, effects) and closed(solo, effects) == [LINK]
    assert solo.peer.state is PeerState.LOOKING and solo.app.entries == []


class NoTree(ListApplication):
    """Application that rejects every snapshot."""

    def restore(self, snapshot: TreeSnapshot | None) -> None:
        if snapshot is not None:
            raise ValueError("a node without its parent")


def test_follower_disconnects_from_leader_with_invalid_snapshot() -> None:
    solo = epoch_accepted(app=NoTree())
    effects = solo.packet(Snap(Z15, tree(txn(1, 5)))) + solo.packet(NewLeader(E1))
    assert broken(solo, effects) and solo.peer.state is PeerState.LOOKING


def test_follower_truncated_too_far_disconnects_from_its_leader() -> None:
    solo = epoch_accepted(log=[txn(1, 1), txn(1, 2), txn(1, 3)], epochs=(1, 1))
    solo.packet(Trunc(Z12))
    assert [effect.zxid for effect in solo.of(TruncateLog)] == [Z12]
    left = replace(solo.recovered(), txns=[txn(1, 1)])
    effects = solo.do(solo.peer.on_recovered(solo.now, left))
    assert closed(solo, effects) == [LINK] and solo.peer.state is PeerState.LOOKING


def needing_a_snapshot() -> Solo:
    """Return a peer that follows again and needs a snapshot.

    Its leader had requested a truncation to a zxid before the peer's own snapshot.
    """
    solo = epoch_accepted(snapshot=tree(txn(1, 5)), epochs=(1, 1))
    effects = solo.packet(Trunc(Z12))
    assert closed(solo, effects) == [LINK] and not broken(solo, effects)
    solo.flush()
    solo.elect(3)
    solo.do(solo.peer.on_link_up(solo.now, AGAIN, PeerId(3)))
    solo.packet(LeaderInfo(Epoch(1)), AGAIN)
    solo.flush()
    assert solo.packets(link=AGAIN)[-1] == AckEpoch(FORCE_SNAP_ZXID, -1)
    return solo


@pytest.mark.parametrize("packet", [Diff(Z15), Trunc(Z12)])
def test_peer_that_needs_a_snapshot_disconnects_on_other_packets(packet: Packet) -> None:
    solo = needing_a_snapshot()
    assert broken(solo, solo.packet(packet, AGAIN)) and solo.peer.state is PeerState.LOOKING


def test_trunc_from_an_empty_leader_truncates_the_whole_log() -> None:
    solo = needing_a_snapshot()
    effects = solo.packet(Trunc(Zxid(0)), AGAIN)
    assert [effect.zxid for effect in solo.of(TruncateLog, effects)] == [0]


@pytest.mark.parametrize(
    "change",
    [
        Txn(SessionId(1), 1, Z11, 0, OpCode.RECONFIG, DeleteTxn("/zookeeper/config")),
        Txn(SessionId(1), 1, Z11, 0, OpCode.RECONFIG, SetDataTxn("/zookeeper/config", b"\xff", -1)),
        Txn(SessionId(1), 1, Z11, 0, OpCode.RECONFIG, SetDataTxn("/zookeeper/config", b"version=0", -1)),
        Txn(SessionId(1), 1, Z11, 0, OpCode.RECONFIG, SetDataTxn("/zookeeper/config", None, -1)),
        Txn(
            SessionId(1), 1, Z11, 0, OpCode.RECONFIG,
            SetDataTxn("/zookeeper/config", b"server.1=h:1:2:observer\nversion=0", -1),
        ),
        Txn(
            SessionId(1), 1, Z11, 0, OpCode.RECONFIG,
            SetDataTxn("/zookeeper/config", b"server.1=h:1:2\nversion=%x" % (1 << 64), -1),
        ),
    ],
)  # fmt: skip
def test_packet_with_an_invalid_membership_is_rejected(change: Txn) -> None:
    with pytest.raises(BadMembership):
        membership_in(change)


def test_reconfig_committed_during_sync_has_its_own_zxid() -> None:
    """COMMITANDACTIVATE during a sync commits only the reconfig, and no proposal after it.

    The later proposals contain no membership.
    """
    members = b"server.1=h1:1:2;3\nserver.2=h2:1:2;3\nserver.3=h3:1:2;3\nversion=100000001"
    change = Txn(SessionId(1), 1, Z11, 0, OpCode.RECONFIG, SetDataTxn("/zookeeper/config", members, -1))
    solo = epoch_accepted()
    solo.together([Diff(Z12), Proposal([change, txn(1, 2)]), CommitAndActivate(Z11, PeerId(3)), NewLeader(E1)])
    solo.flush()
    assert solo.peer.state is PeerState.FOLLOWING and solo.app.last_applied == Z11


# -- a peer's own state ----------------------------------------------------------------------------------------------


def test_too_many_packets_during_an_election_close_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "PARKED_PACKETS_MAX", 2)
    solo = Solo()
    solo.start()
    solo.do(solo.peer.on_link_accepted(solo.now, LINK))
    assert not closed(solo, solo.packet(Ping(Zxid(0)))) and not closed(solo, solo.packet(Ping(Zxid(0))))
    assert closed(solo, solo.packet(Ping(Zxid(0)))) == [LINK]
    assert not closed(solo, solo.packet(Ping(Zxid(0)))), "the closed link is forgotten"


def test_application_timers_call_only_their_own_function() -> None:
    class Timed(ListApplication):
        def expire_local_sessions(self, now: Instant) -> list[Effect]:
            return [Emit(InvariantViolated("local sessions", ""))]

        def delete_lapsed(self, now: Instant) -> list[Effect]:
            return [Emit(InvariantViolated("lapsed nodes", ""))]

    solo = Solo(app=Timed())
    solo.start()
    for name, rule in ((LOCAL_SESSIONS_TIMER, "local sessions"), (LAPSING_TIMER, "lapsed nodes")):
        events = [effect.event for effect in solo.of(Emit, solo.timer(name))]
        assert events == [InvariantViolated(rule, "")]


def test_logged_but_uncommitted_txns_count_as_outstanding() -> None:
    solo = epoch_accepted()
    for packet in (Diff(Zxid(0)), NewLeader(E1)):
        solo.packet(packet)
    solo.flush()
    solo.packet(UpToDate())
    assert solo.peer.outstanding == 0
    solo.packet(Proposal([txn(1, 1), txn(1, 2)]))
    assert solo.peer.outstanding == 2
    solo.packet(Commit(Z11))
    assert solo.peer.outstanding == 1


# -- a follower's observers ------------------------------------------------------------------------------------------


def master() -> Solo:
    """Return a follower in sync that has a connection from an observer."""
    solo = Solo(observers=(4, 5), serves_observers=True)
    solo.follow()
    for packet in (Diff(Zxid(0)), NewLeader(E1)):
        solo.packet(packet)
    solo.flush()
    solo.packet(UpToDate())
    solo.do(solo.peer.on_link_accepted(solo.now, OBSERVERS))
    return solo


INFO = FollowerInfo(Epoch(0), PeerId(4), observer=True)


def offered() -> Solo:
    solo = master()
    assert solo.packets(solo.packet(INFO, OBSERVERS), OBSERVERS) == [LeaderInfo(Epoch(1))]
    return solo


def syncing() -> Solo:
    solo = offered()
    sent = solo.packets(solo.packet(AckEpoch(Zxid(0), 0), OBSERVERS), OBSERVERS)
    assert [type(packet) for packet in sent] == [Diff, NewLeader]
    return solo


def serving() -> Solo:
    solo = syncing()
    assert solo.packets(solo.packet(Ack(E1), OBSERVERS), OBSERVERS) == [UpToDate()]
    return solo


FROM_OBSERVERS: dict[str, Packet] = {
    "OBSERVERINFO": INFO,
    "ACKEPOCH": AckEpoch(Zxid(0), 0),
    "ACK": Ack(E1),
    "PING": Ping(Zxid(0)),
    "REQUEST": request(),
    "REVALIDATE": Revalidate(SessionId(5), 4000),
    "SYNC": SyncRequest(SessionId(5), 1, "/"),
    "UPTODATE": UpToDate(),
}


@pytest.mark.parametrize(
    ("state", "fitting"),
    [
        pytest.param(master, {"OBSERVERINFO"}, id="connected"),
        pytest.param(offered, {"ACKEPOCH"}, id="it was offered the epoch"),
        pytest.param(syncing, {"ACK"}, id="it was sent the history"),
        pytest.param(serving, {"ACK", "PING", "REQUEST", "REVALIDATE", "SYNC"}, id="it serves"),
    ],
)
def test_follower_rejects_packets_invalid_in_an_observers_state(state: Callable[[], Solo], fitting: set[str]) -> None:
    """A follower accepts from its observers only packets that are valid in their current state.

    ZooKeeper does the same, because its ObserverMaster uses the leader's LearnerHandler.
    """
    for name, packet in FROM_OBSERVERS.items():
        solo = state()
        effects = solo.packet(packet, OBSERVERS)
        taken = OBSERVERS not in closed(solo, effects)
        assert taken == (name in fitting), name
        assert broken(solo, effects) == (not taken), name
        assert solo.peer.state is PeerState.FOLLOWING


@pytest.mark.parametrize(
    ("info", "protocol_broken"),
    [
        pytest.param(FollowerInfo(Epoch(0), PeerId(2)), False, id="a voter"),
        pytest.param(FollowerInfo(Epoch(0), PeerId(1), observer=True), True, id="this server's own id"),
        pytest.param(FollowerInfo(Epoch(2), PeerId(4), observer=True), False, id="a later epoch"),
        pytest.param(FollowerInfo(Epoch(0), PeerId(4), 1, observer=True), False, id="a newer configuration"),
    ],
)
def test_follower_rejects_observers_that_it_cannot_serve(info: FollowerInfo, protocol_broken: bool) -> None:
    solo = master()
    effects = solo.packet(info, OBSERVERS)
    assert closed(solo, effects) == [OBSERVERS] and not solo.packets(effects, OBSERVERS)
    assert broken(solo, effects) == protocol_broken


def test_observer_that_reconnects_counts_once_towards_the_limit() -> None:
    solo = serving()
    solo.do(solo.peer.on_link_accepted(solo.now, AGAIN))
    assert closed(solo, solo.packet(INFO, AGAIN)) == [OBSERVERS]
    assert not solo.packets(solo.packet(Ping(Zxid(0)), OBSERVERS)), "the old connection is closed"


def test_number_of_observers_of_a_follower_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer_master, "OBSERVERS_MAX", 2)
    solo = master()
    links = [LinkId(30), LinkId(31)]
    assert [closed(solo, solo.do(solo.peer.on_link_accepted(solo.now, link))) for link in links] == [[], [links[1]]]


@pytest.mark.parametrize(("state", "limit"), [(master, "init_limit"), (syncing, "init_limit"), (serving, "sync_limit")])
def test_follower_closes_the_link_of_a_silent_observer(state: Callable[[], Solo], limit: str) -> None:
    solo = state()
    limit_ms = getattr(solo.peer._core.config, limit) * TICK_MS
    assert not closed(solo, solo.timer(MASTER_TIMER, limit_ms))
    assert closed(solo, solo.timer(MASTER_TIMER, 1)) == [OBSERVERS]
    assert solo.peer.state is PeerState.FOLLOWING


@pytest.mark.parametrize(("state", "pinged"), [(master, 0), (offered, 0), (syncing, 1), (serving, 1)])
def test_observer_is_pinged_only_after_its_history_is_queued(state: Callable[[], Solo], pinged: int) -> None:
    solo = state()
    sent = solo.packets(solo.timer(MASTER_TIMER, TICK_MS // 2), OBSERVERS)
    assert sum(isinstance(packet, Ping) for packet in sent) == pinged


def test_observer_requests_and_sessions_are_forwarded_to_leader() -> None:
    solo = serving()
    asked = [request(), SyncRequest(SessionId(5), 1, "/"), Revalidate(SessionId(5), 4000)]
    for packet in asked:
        assert solo.packets(solo.packet(packet, OBSERVERS)) == [packet]
    assert isinstance(asked[0], ForwardedRequest)
    solo.packet(Ping(Zxid(0), ((SessionId(5), 4000),)), OBSERVERS)
    (pong,) = solo.packets(solo.packet(Ping(Zxid(0))))
    assert isinstance(pong, Ping) and pong.touched == ((SessionId(5), 4000),)


def test_truncation_to_an_unusable_history_stops_the_peer() -> None:
    solo = epoch_accepted(log=[txn(1, 1), txn(1, 2)], epochs=(1, 1))
    solo.packet(Trunc(Z11))
    left = replace(solo.recovered(), txns=[txn(1, 1)], accepted_epoch=Epoch(0))
    effects = solo.do(solo.peer.on_recovered(solo.now, left))
    assert len(solo.of(Halt, effects)) == 1
