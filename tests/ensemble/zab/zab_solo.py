"""A single peer in a test that controls its network and its disk."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from tests.ensemble.zab.list_application import ListApplication
from tests.ensemble.zab.peer_disk import Disk
from zabka.ensemble.ids import Epoch, LinkId, PeerId, SessionId, Zxid, make_zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import OpCode
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.effects import (
    Append,
    Barrier,
    Effect,
    Recovered,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveDoubt,
    SaveSnapshot,
    SendPackets,
    TruncateLog,
)
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Diff,
    FollowerInfo,
    ForwardedRequest,
    LeaderInfo,
    NewLeader,
    Notification,
    Packet,
    PeerState,
    UpToDate,
    Vote,
)
from zabka.ensemble.zab.peer import Peer
from zabka.ensemble.zab.role import Phase

LINK = LinkId(7)
E1, E2 = make_zxid(1, 0), make_zxid(2, 0)
E = TypeVar("E", bound=Effect)
_DISK = (Append, Barrier, SaveAcceptedEpoch, SaveCurrentEpoch, SaveDoubt, SaveSnapshot, TruncateLog)


def txn(epoch: int, counter: int) -> Txn:
    zxid = make_zxid(epoch, counter)
    return Txn(SessionId(1), counter, zxid, 0, OpCode.SET_DATA, SetDataTxn("/", b"%x" % zxid, 0))


def tree(*txns: Txn) -> TreeSnapshot:
    nodes = [NodeImage("/", b"%x" % t.zxid, (), t.zxid, 0, 0, 0, 0, 0, 0, 0, 0) for t in txns]
    return TreeSnapshot(txns[-1].zxid, {}, nodes, 0)


class Solo:
    """A peer, and all effects that it has returned. `flush` executes the disk operations among them."""

    def __init__(
        self,
        id: int = 1,
        voters: Sequence[int] = (1, 2, 3),
        observers: Sequence[int] = (),
        log: Sequence[Txn] = (),
        snapshot: TreeSnapshot | None = None,
        epochs: tuple[int, int] = (0, 0),
        cumulative: bool = True,
        snap_count: int = 1000,
        full_journal: bool = False,
        in_doubt: bool = False,
        incomplete: bool = False,
        serves_observers: bool = False,
        app: ListApplication | None = None,
    ) -> None:
        self.app = app or ListApplication()
        self.disk = Disk()
        self.disk.in_doubt, self.disk.incomplete = in_doubt, incomplete
        self.disk.accepted, self.disk.current = Epoch(epochs[0]), Epoch(epochs[1])
        self.disk.log, self.disk.synced = list(log), len(log)
        self.disk.snapshots = [snapshot] if snapshot else []
        config = EnsembleConfig(
            id,
            tuple(voters),
            tuple(observers),
            tick_time_ms=100,
            snap_count=snap_count,
            full_journal=full_journal,
            serves_observers=serves_observers,
        )
        self.peer = Peer(config, self.app, self.recovered(), Random(1), cumulative=cumulative)
        self.now_ms = 0
        self.effects: list[Effect] = []
        self._disk_done = 0

    def recovered(self) -> Recovered:
        return self.disk.recovered()

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, self.now_ms)

    def do(self, effects: list[Effect]) -> list[Effect]:
        self.effects += effects
        return effects

    def start(self) -> None:
        self.do(self.peer.on_start(self.now))

    def receive_vote(self, src: int, state: PeerState, vote: tuple[int, int, int], round: int = 1) -> list[Effect]:
        ballot = Vote(PeerId(vote[0]), Zxid(vote[1]), Epoch(vote[2]))
        return self.do(self.peer.on_notification(self.now, PeerId(src), Notification(state, ballot, round)))

    def timer(self, name: str, after_ms: int = 0) -> list[Effect]:
        self.now_ms += after_ms
        return self.do(self.peer.on_timer(self.now, name))

    def packet(self, packet: Packet, link: LinkId = LINK) -> list[Effect]:
        return self.together([packet], link)

    def together(self, packets: Sequence[Packet], link: LinkId = LINK) -> list[Effect]:
        """Deliver packets as if they were read together, and return the effects."""
        return self.do(self.peer.on_packets(self.now, link, packets))

    def step_disk(self) -> list[Effect]:
        """Execute only the next disk operation, and return the effects that its completion causes."""
        effect = self.queued()[0]
        self._disk_done += 1
        self.disk.execute(effect)
        if isinstance(effect, Barrier):
            return self.do(self.peer.on_durable(self.now, effect.token))
        if isinstance(effect, TruncateLog):
            return self.do(self.peer.on_recovered(self.now, self.recovered()))
        return []

    def queued(self) -> list[Effect]:
        return [effect for effect in self.effects if isinstance(effect, _DISK)][self._disk_done :]

    def flush(self) -> list[Effect]:
        done: list[Effect] = []
        while self.queued():
            done += self.step_disk()
        return done

    def packets(self, effects: list[Effect] | None = None, link: LinkId = LINK) -> list[Packet]:
        source = self.effects if effects is None else effects
        return [p for e in source if isinstance(e, SendPackets) and e.link == link for p in e.packets]

    def of(self, kind: type[E], effects: list[Effect] | None = None) -> list[E]:
        return [e for e in (self.effects if effects is None else effects) if type(e) is kind]

    # -- bring the peer to a given state

    def follow(self, leader: int = 3, epoch: int = 1, cumulative: bool = False) -> None:
        """Follow a leader up to the reply to LEADERINFO, and complete all disk operations."""
        self.start()
        self.elect(leader)
        self.do(self.peer.on_link_up(self.now, LINK, PeerId(leader)))
        self.packet(LeaderInfo(Epoch(epoch), cumulative))
        self.flush()

    def elect(self, leader: int) -> None:
        """Deliver a vote for `leader` from each other server."""
        round = self.peer.round
        for voter in (v for v in (1, 2, 3) if v != self.peer.status().peer_id):
            self.receive_vote(voter, PeerState.LOOKING, (leader, 2**62, 2**30), round)

    def lead(self, follower: int = 1, epoch: int = 0, cumulative: bool = False, wants_snapshot: bool = False) -> None:
        """Become leader with a follower that has sent FOLLOWERINFO on LINK, and complete all disk operations."""
        self.start()
        proposal = (self.peer.status().peer_id, self.peer.last_zxid, self.peer.current_epoch)
        for voter in (1, 2, 3):
            if voter != self.peer.status().peer_id:
                self.receive_vote(voter, PeerState.LOOKING, proposal, self.peer.round)
        assert self.peer.state is PeerState.LEADING
        self.do(self.peer.on_link_accepted(self.now, LINK))
        info = FollowerInfo(Epoch(epoch), PeerId(follower), cumulative=cumulative, wants_snapshot=wants_snapshot)
        self.packet(info)
        self.flush()


def request(cxid: int = 1) -> ForwardedRequest:
    return ForwardedRequest(SessionId(1), cxid, OpCode.SET_DATA, b"x")


def synced_follower(cumulative: bool = False) -> Solo:
    solo = Solo()
    solo.follow(epoch=1, cumulative=cumulative)
    for packet in (Diff(Zxid(0)), NewLeader(E1)):
        solo.packet(packet)
    solo.flush()
    solo.packet(UpToDate())
    assert solo.peer.phase is Phase.BROADCAST
    return solo


def established_leader(cumulative: bool = False, **options: object) -> Solo:
    solo = Solo(id=3, **options)  # type: ignore[arg-type]
    solo.lead(follower=1, cumulative=cumulative)
    solo.packet(AckEpoch(solo.peer.last_zxid, 0))
    solo.flush()
    solo.packet(Ack(E1))
    assert solo.peer.phase is Phase.BROADCAST
    return solo
