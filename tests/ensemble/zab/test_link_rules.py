"""How a peer reacts to connections and packets in each state, and which packets it sends on a timer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.ensemble.zab.list_application import ListApplication
from tests.ensemble.zab.zab_solo import E1, LINK, Solo, established_leader, request, synced_follower, tree, txn
from zabka.ensemble.ids import EPOCH_MAX, Epoch, LinkId, PeerId, SessionId, Zxid, make_zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.ensemble.zab.effects import CloseLink, Effect, Emit, OpenLink, SaveAcceptedEpoch, SetTimer
from zabka.ensemble.zab.leader import HALF_TICK_TIMER, INIT_TIMER, UNKNOWN_LINKS_MAX
from zabka.ensemble.zab.learner import CONNECT_BUDGET_MS, CONNECT_TIMER, EPOCH_LEAP_MAX, LIVENESS_TIMER, RETRY_MAX_MS
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Commit,
    Diff,
    FollowerInfo,
    Inform,
    InformAndActivate,
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
from zabka.ensemble.zab.peer import PARKED_LINKS_MAX
from zabka.ensemble.zab.role import Phase
from zabka.journal.events import PeerProtocolBroken, TxnLogged

TICK_MS = 100
"""Duration of a tick of a `Solo`, in ms. Its EnsembleConfig has initLimit and syncLimit."""
OTHER = LinkId(8)


def accepted(solo: Solo, link: LinkId) -> list[Effect]:
    return solo.do(solo.peer.on_link_accepted(solo.now, link))


def closed(solo: Solo, effects: list[Effect]) -> list[LinkId]:
    return [effect.link for effect in solo.of(CloseLink, effects)]


def timers(solo: Solo, name: str, effects: list[Effect] | None = None) -> list[int]:
    return [effect.delay_ms for effect in solo.of(SetTimer, effects) if effect.name == name]


def broken(solo: Solo, effects: list[Effect]) -> bool:
    return any(isinstance(effect.event, PeerProtocolBroken) for effect in solo.of(Emit, effects))


# -- connections -----------------------------------------------------------------------------------------------------


def test_links_waiting_for_an_election_are_limited() -> None:
    solo = Solo(id=3)
    solo.start()
    links = [LinkId(100 + n) for n in range(PARKED_LINKS_MAX + 1)]
    assert [closed(solo, accepted(solo, link)) for link in links] == [[]] * PARKED_LINKS_MAX + [[links[-1]]]
    solo.elect(3)
    assert solo.peer.state is PeerState.LEADING
    # When elected, the leader accepts the waiting connections as learners, and reads their packets.
    solo.packet(FollowerInfo(Epoch(4), PeerId(1)), links[0])
    solo.flush()
    assert solo.packets(link=links[0]) == [LeaderInfo(Epoch(5))]


def test_leader_limits_links_of_unidentified_servers() -> None:
    solo = Solo(id=3)
    solo.lead()
    links = [LinkId(100 + n) for n in range(UNKNOWN_LINKS_MAX + 1)]
    closed_links = [closed(solo, accepted(solo, link)) for link in links]
    assert closed_links == [[]] * UNKNOWN_LINKS_MAX + [[links[-1]]], "an identified link does not count"


def test_connection_not_needed_in_the_current_state_is_closed() -> None:
    looking = Solo()
    looking.start()
    assert closed(looking, looking.do(looking.peer.on_link_up(looking.now, OTHER, PeerId(3)))) == [OTHER]
    following = Solo()
    following.follow()
    for to in (3, 2):
        assert closed(following, following.do(following.peer.on_link_up(following.now, OTHER, PeerId(to)))) == [OTHER]
    leading = established_leader()
    assert closed(leading, leading.do(leading.peer.on_link_up(leading.now, OTHER, PeerId(1)))) == [OTHER]
    assert following.peer.state is PeerState.FOLLOWING and leading.peer.state is PeerState.LEADING


def test_follower_closes_connections_to_all_but_its_leader() -> None:
    solo = Solo()
    solo.start()
    solo.elect(3)
    effects = solo.do(solo.peer.on_link_up(solo.now, OTHER, PeerId(2)))
    assert closed(solo, effects) == [OTHER] and not solo.packets(effects, OTHER)
    assert solo.packets(solo.do(solo.peer.on_link_up(solo.now, LINK, PeerId(3))))


def test_follower_closes_connections_of_learners() -> None:
    solo = synced_follower()
    assert closed(solo, accepted(solo, OTHER)) == [OTHER]


def test_unreachable_leader_is_retried_until_init_limit() -> None:
    """A learner retries to connect to its leader with growing delays, and gives up after initLimit.

    Learner.connectToLeader does the same.
    """
    solo = Solo()
    solo.start()
    solo.elect(3)
    waits: list[int] = []
    while solo.peer.state is PeerState.FOLLOWING:
        effects = solo.do(solo.peer.on_link_failed(solo.now, PeerId(3)))
        if not (wait := timers(solo, CONNECT_TIMER, effects)):
            break
        waits += wait
        assert solo.of(OpenLink, solo.timer(CONNECT_TIMER, wait[0])) == [OpenLink(PeerId(3))]
    assert solo.peer.state is PeerState.LOOKING
    doubled = [min(waits[0] * 2**n, RETRY_MAX_MS) for n in range(len(waits))]
    budget_ms = min(CONNECT_BUDGET_MS, solo.peer._core.config.init_limit * TICK_MS)
    assert waits == doubled and sum(waits[:-1]) < budget_ms <= sum(waits)


def test_failed_connection_to_another_server_is_ignored() -> None:
    solo = Solo()
    solo.start()
    solo.elect(3)
    assert not timers(solo, CONNECT_TIMER, solo.do(solo.peer.on_link_failed(solo.now, PeerId(2))))


# -- unexpected packets ----------------------------------------------------------------------------------------------

Z11, Z12 = make_zxid(1, 1), make_zxid(1, 2)
FROM_LEADERS: dict[str, Packet] = {
    "LEADERINFO": LeaderInfo(Epoch(1)),
    "DIFF": Diff(Zxid(0)),
    "TRUNC": Trunc(Zxid(0)),
    "SNAP": Snap(Z11, tree(txn(1, 1))),
    "PROPOSAL": Proposal([txn(1, 1)]),
    "COMMIT": Commit(Z11),
    "INFORM": Inform(txn(1, 1)),
    "NEWLEADER": NewLeader(E1),
    "UPTODATE": UpToDate(),
    "PING": Ping(Zxid(0)),
}


def connected() -> Solo:
    solo = Solo()
    solo.start()
    solo.elect(3)
    solo.do(solo.peer.on_link_up(solo.now, LINK, PeerId(3)))
    return solo


def promising() -> Solo:
    solo = connected()
    solo.packet(LeaderInfo(Epoch(1)))
    return solo


def epoch_accepted() -> Solo:
    solo = promising()
    solo.flush()
    return solo


def receiving() -> Solo:
    solo = epoch_accepted()
    solo.packet(Diff(Zxid(0)))
    return solo


def adopting() -> Solo:
    solo = receiving()
    solo.packet(NewLeader(E1))
    return solo


def adopted() -> Solo:
    solo = adopting()
    solo.flush()
    return solo


@pytest.mark.parametrize(
    ("state", "fitting"),
    [
        pytest.param(connected, {"LEADERINFO", "PING"}, id="introduced"),
        pytest.param(promising, {"PING"}, id="its promise is not durable"),
        pytest.param(epoch_accepted, {"DIFF", "TRUNC", "SNAP", "PING"}, id="promised"),
        pytest.param(receiving, {"PROPOSAL", "INFORM", "NEWLEADER", "PING"}, id="receiving the history"),
        pytest.param(adopting, {"PROPOSAL", "INFORM", "PING"}, id="taking the history over"),
        pytest.param(adopted, {"PROPOSAL", "INFORM", "UPTODATE", "PING"}, id="the history is taken over"),
    ],
)
def test_learner_accepts_only_packets_of_its_protocol_step(state: Callable[[], Solo], fitting: set[str]) -> None:
    """A learner accepts only packets that are valid in its protocol step.

    The valid packets are those that Learner.registerWithLeader and syncWithLeader read at this step.
    """
    for name, packet in FROM_LEADERS.items():
        solo = state()
        effects = solo.packet(packet)
        taken = solo.peer.state is PeerState.FOLLOWING
        assert taken == (name in fitting), name
        assert broken(solo, effects) == (not taken), name


def waiting() -> Solo:
    solo = Solo(id=3)
    solo.start()
    solo.elect(3)
    accepted(solo, LINK)
    return solo


def introduced() -> Solo:
    solo = waiting()
    solo.packet(FollowerInfo(Epoch(0), PeerId(1)))
    return solo


def offered() -> Solo:
    solo = introduced()
    solo.flush()
    return solo


def syncing() -> Solo:
    solo = offered()
    solo.packet(AckEpoch(Zxid(0), 0))
    solo.flush()
    return solo


FROM_LEARNERS: dict[str, Packet] = {
    "FOLLOWERINFO": FollowerInfo(Epoch(0), PeerId(1)),
    "ACKEPOCH": AckEpoch(Zxid(0), 0),
    "ACK": Ack(E1),
    "REQUEST": request(),
    "REVALIDATE": Revalidate(SessionId(5), 4000),
    "SYNC": SyncRequest(SessionId(5), 1, "/"),
    "UPTODATE": UpToDate(),
}


@pytest.mark.parametrize(
    ("state", "fitting"),
    [
        pytest.param(waiting, {"FOLLOWERINFO"}, id="connected"),
        pytest.param(introduced, set(), id="introduced"),
        pytest.param(offered, {"ACKEPOCH"}, id="it was offered an epoch"),
        pytest.param(syncing, {"ACK"}, id="it was sent the history"),
        pytest.param(established_leader, {"ACK", "REQUEST", "REVALIDATE", "SYNC"}, id="it serves"),
    ],
)
def test_leader_accepts_only_packets_of_the_learners_step(state: Callable[[], Solo], fitting: set[str]) -> None:
    """A leader accepts only packets that are valid in the learner's protocol step, as in LearnerHandler.run."""
    for name, packet in FROM_LEARNERS.items():
        solo = state()
        effects = solo.packet(packet)
        taken = LINK not in closed(solo, effects)
        assert taken == (name in fitting), name
        assert broken(solo, effects) == (not taken), name


def test_follower_disconnects_from_leader_with_too_high_epoch() -> None:
    for leap, followed in ((EPOCH_LEAP_MAX, True), (EPOCH_LEAP_MAX + 1, False)):
        solo = Solo(epochs=(5, 4))
        solo.start()
        solo.elect(3)
        solo.do(solo.peer.on_link_up(solo.now, LINK, PeerId(3)))
        effects = solo.packet(LeaderInfo(Epoch(5 + leap)))
        assert (solo.peer.state is PeerState.FOLLOWING) == followed == bool(solo.of(SaveAcceptedEpoch, effects))


@pytest.mark.parametrize(("accepted_epoch", "opened"), [(EPOCH_MAX - 1, True), (EPOCH_MAX, False)])
def test_leader_with_maximum_accepted_epoch_resigns(accepted_epoch: int, opened: bool) -> None:
    """A leader whose accepted epoch is the highest possible one resigns.

    An epoch has 31 bits, because it is part of a zxid, which is a signed number in messages.
    """
    solo = Solo(id=3, epochs=(accepted_epoch, 0))
    solo.start()
    solo.elect(3)
    accepted(solo, LINK)
    effects = solo.packet(FollowerInfo(Epoch(0), PeerId(1)))
    assert solo.of(SaveAcceptedEpoch, effects) == ([SaveAcceptedEpoch(Epoch(EPOCH_MAX))] if opened else [])
    assert (solo.peer.state is PeerState.LEADING) == opened


# -- journal events ---------------------------------------------------------------------------------------------------


class Telling(ListApplication):
    """Replicated list that emits a journal event for each transaction that it applies."""

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        return [*super().apply(now, txns), *(Emit(TxnLogged(each.zxid)) for each in txns)]


def logged_zxids(solo: Solo, effects: list[Effect]) -> list[int]:
    return [effect.event.zxid for effect in solo.of(Emit, effects) if isinstance(effect.event, TxnLogged)]


def test_commits_of_a_sync_are_journaled_at_uptodate() -> None:
    """Commits during a sync are journaled only at UPTODATE.

    UPTODATE commits the initial history. Before it, another leader could still truncate that history.
    """
    solo = Solo(app=Telling())
    solo.follow()
    effects = solo.together([Diff(Z12), Proposal([txn(1, 1), txn(1, 2)]), Commit(Z11), Commit(Z12), NewLeader(E1)])
    effects += solo.flush()
    assert solo.app.last_applied == Z12 and logged_zxids(solo, effects) == []
    assert logged_zxids(solo, solo.packet(UpToDate())) == [Z11, Z12]
    assert logged_zxids(solo, solo.packet(Proposal([txn(1, 3)])) + solo.packet(Commit(make_zxid(1, 3)))) == [
        make_zxid(1, 3)
    ]


# -- counters --------------------------------------------------------------------------------------------------------


def test_new_peer_has_counters_of_zero() -> None:
    solo = Solo()
    solo.start()
    peer = solo.peer
    assert (peer.syncs_sent, peer.rare_syncs, peer.quits_over_voters) == ((0, 0), (0, 0), 0)
    assert peer.proposal_sizes() == (-1, -1, -1)


def test_each_synchronisation_is_counted_by_its_type() -> None:
    solo = syncing()
    assert (solo.peer.syncs_sent, solo.peer.rare_syncs) == ((0, 1), (0, 0))
    accepted(solo, OTHER)
    solo.packet(FollowerInfo(Epoch(0), PeerId(2), cumulative=True, wants_snapshot=True), OTHER)
    solo.packet(AckEpoch(Zxid(0), 0), OTHER)
    assert solo.peer.syncs_sent == (1, 1)


def test_leader_tracks_transaction_sizes_of_its_term() -> None:
    """A leader tracks the last, largest and smallest size of its term's transactions in bytes, as Leader does in
    ZooKeeper.
    """
    before = [txn(1, 1)]
    solo = Solo(id=3, log=before, epochs=(1, 1))
    solo.lead(follower=1, epoch=1)
    solo.packet(AckEpoch(before[0].zxid, 1))
    solo.flush()
    solo.packet(Ack(make_zxid(2, 0)))
    assert solo.peer.phase is Phase.BROADCAST and solo.peer.proposal_sizes() == (-1, -1, -1)
    for cxid in (1, 2):
        solo.packet(request(cxid))
    solo.flush()
    solo.packet(Ack(make_zxid(2, 1)))
    solo.packet(Ack(make_zxid(2, 2)))
    sizes = [len(each.encoded()) for packet in solo.packets() if isinstance(packet, Proposal) for each in packet.txns]
    assert len(sizes) == 2 and solo.peer.proposal_sizes() == (sizes[-1], max(sizes), min(sizes))


def test_informandactivate_commits_only_its_reconfig() -> None:
    """INFORMANDACTIVATE contains the reconfig transaction, and commits only this transaction."""
    solo = Solo(id=4, observers=(4,))
    solo.follow()
    members = SetDataTxn("/zookeeper/config", b"server.1=h1:2888:3888:participant;2181\nversion=100000001", -1)
    change = Txn(SessionId(1), 1, Z11, 0, OpCode.RECONFIG, members)
    solo.together([Diff(Zxid(0)), InformAndActivate(change, PeerId(3)), Proposal([txn(1, 2)]), NewLeader(E1)])
    solo.flush()
    assert solo.app.last_applied == Z11


# -- packets on a timer ----------------------------------------------------------------------------------------------


def pings(solo: Solo, effects: list[Effect], link: LinkId = LINK) -> list[Packet]:
    return [packet for packet in solo.packets(effects, link) if isinstance(packet, Ping)]


def test_leader_checks_its_learners_every_half_tick() -> None:
    """A leader checks its learners every half tick.

    Leader.lead in ZooKeeper also pings after each half tick.
    """
    solo = waiting()
    assert timers(solo, HALF_TICK_TIMER) == [TICK_MS // 2]
    assert timers(solo, INIT_TIMER) == [solo.peer._core.config.init_limit * TICK_MS]
    assert timers(solo, HALF_TICK_TIMER, solo.timer(HALF_TICK_TIMER, TICK_MS // 2)) == [TICK_MS // 2]


@pytest.mark.parametrize(
    ("state", "pinged"),
    [(waiting, 0), (introduced, 0), (offered, 0), (syncing, 1), (established_leader, 1)],
    ids=["connected", "introduced", "offered", "it was sent the history", "it serves"],
)
def test_learner_is_pinged_after_its_history_is_queued(state: Callable[[], Solo], pinged: int) -> None:
    """A leader pings a learner only after it has queued the learner's history.

    In ZooKeeper, LearnerHandler.ping does nothing until its sending thread runs, which starts after the history is
    queued.
    """
    solo = state()
    assert len(pings(solo, solo.timer(HALF_TICK_TIMER, TICK_MS // 2))) == pinged


def test_serving_learner_replies_to_pings_with_its_sessions() -> None:
    solo = adopted()
    assert not solo.packets(solo.packet(Ping(Zxid(0))))
    solo.packet(UpToDate())
    assert [type(packet) for packet in solo.packets(solo.packet(Ping(Zxid(0))))] == [Ping]


def test_learner_disconnects_from_a_leader_silent_over_its_limit() -> None:
    """A learner leaves a silent leader after initLimit until it has received NEWLEADER, and after syncLimit later.

    Both limits count from the last packet that the learner received.
    """
    for state, limit in ((epoch_accepted, "init_limit"), (adopted, "sync_limit")):
        solo = state()
        limit_ms = getattr(solo.peer._core.config, limit) * TICK_MS
        solo.now_ms += 30
        solo.packet(Ping(Zxid(0)))
        effects = solo.timer(LIVENESS_TIMER, limit_ms - 1)
        assert timers(solo, LIVENESS_TIMER, effects) == [1] and solo.peer.state is PeerState.FOLLOWING
        solo.timer(LIVENESS_TIMER, 1)
        assert solo.peer.state is PeerState.LOOKING
