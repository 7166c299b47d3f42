"""One peer with its real service, and links that deliver any packets in any order.

After an invalid packet, the peer closes the link or ignores the packet. It continues, and can be elected, follow and
lead afterwards. Everything that it sends can be encoded.
"""

from __future__ import annotations

from random import Random

import msgspec

from tests.ensemble.zab.peer_disk import Disk
from tests.fuzz.choices import Choices, Target, spoil
from tests.fuzz.peer_targets import MEMBERS, encoded, from_leader, from_learner, notifications, small_snapshot
from zabka.ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, Zxid
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import ConnectRequest, Frames
from zabka.ensemble.server.net.election_wire import decode_notification, encode_notification
from zabka.ensemble.server.net.quorum_wire import QuorumCodec
from zabka.ensemble.tree.service import Service
from zabka.ensemble.txnlog.snapshot_format import encode_tree
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.effects import (
    Append,
    Barrier,
    CloseLink,
    Effect,
    Emit,
    Halt,
    OpenLink,
    ReadLog,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveDoubt,
    SaveMembership,
    SaveNextMembership,
    SaveSnapshot,
    SendNotification,
    SendPackets,
    SetTimer,
    TruncateLog,
)
from zabka.ensemble.zab.messages import (
    Ack,
    AckEpoch,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Notification,
    Packet,
    PeerState,
    Snap,
    UpToDate,
    Vote,
)
from zabka.ensemble.zab.peer import Peer

_ON_DISK = (
    Append, Barrier, SaveAcceptedEpoch, SaveCurrentEpoch, SaveDoubt, SaveMembership, SaveNextMembership, SaveSnapshot,
    TruncateLog,
)  # fmt: skip
_FROM_LEADER = from_leader(small_snapshot())
_FROM_LEARNER = from_learner()


class Lone:
    """Server 1 of three. The fuzzer sends the packets of servers 2 and 3."""

    def __init__(self, *, reconfig: bool = False) -> None:
        self.disk = Disk()
        membership = MEMBERS.replace("\nversion", "\nserver.3=127.0.0.1:7:8:participant;127.0.0.1:9\nversion")
        config = EnsembleConfig(
            1, (1, 2, 3), (), tick_time_ms=100, snap_count=10, full_journal=True,
            membership=membership, reconfig_enabled=reconfig,
        )  # fmt: skip
        self.service = Service(config)
        self.peer = Peer(config, self.service, self.disk.recovered(), Random(1))
        self.links: dict[LinkId, QuorumCodec] = {}
        self.requested: list[PeerId] = []
        self.timers: dict[str, int] = {}
        self.queue: list[Effect] = []
        self.halted: str | None = None
        self.now_ms = 0
        self._next = 0
        self.do(self.peer.on_start(self.now))

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, self.now_ms)

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendPackets(link=link, packets=packets):
                    codec = self.links.get(link)
                    for packet in packets if codec is not None else ():
                        assert codec is not None
                        codec.encode(packet)
                        if isinstance(packet, Snap):
                            b"".join(encode_tree(packet.snapshot))
                case SendNotification(notification=notification):
                    decode_notification(encode_notification(notification)[4:])
                case CloseLink(link=link):
                    self.links.pop(link, None)
                case OpenLink(to=to):
                    self.requested.append(to)
                case SetTimer(name=name, delay_ms=delay_ms):
                    self.timers[name] = self.now_ms + delay_ms
                case Emit(event=event):
                    msgspec.json.encode(event)
                case Halt(reason=reason):
                    self.halted = reason
                case ReadLog(link=link, after=after):
                    self.do(self.peer.on_log_read(self.now, link, after, self.disk.read_log(effect)))
                case _ if isinstance(effect, _ON_DISK):
                    self.queue.append(effect)
                case _:
                    pass

    def flush(self) -> None:
        """Execute all pending disk operations."""
        while self.queue:
            effect = self.queue.pop(0)
            self.disk.execute(effect)
            if isinstance(effect, Barrier):
                self.do(self.peer.on_durable(self.now, effect.token))
            elif isinstance(effect, TruncateLog):
                self.do(self.peer.on_recovered(self.now, self.disk.recovered()))

    def pass_time(self, ms: int) -> None:
        end = self.now_ms + ms
        while self.timers and min(self.timers.values()) <= end:
            name = min(self.timers, key=lambda each: (self.timers[each], each))
            self.now_ms = max(self.now_ms, self.timers.pop(name))
            self.do(self.peer.on_timer(self.now, name))
            self.flush()
        self.now_ms = end

    def receive(self, src: int, notification: Notification) -> None:
        self.do(self.peer.on_notification(self.now, PeerId(src), notification))

    def elect(self, leader: int) -> None:
        """Deliver votes of all other voters for that server, in this peer's round."""
        for voter in (2, 3):
            if self.peer.state is PeerState.LOOKING:
                best = (PeerId(leader), Zxid(2**62), Epoch(2**30))
                vote = Vote(*best) if leader != 1 else Vote(PeerId(1), self.peer.last_zxid, self.peer.current_epoch)
                self.receive(voter, Notification(PeerState.LOOKING, vote, self.peer.round))
        self.flush()

    def connect(self, *, learner: bool) -> LinkId:
        """Open a link to the leader, or accept a link from a learner."""
        self._next += 1
        link = LinkId(self._next)
        self.links[link] = QuorumCodec(learner=learner)
        if learner:
            to = self.requested.pop() if self.requested else PeerId(2)
            self.do(self.peer.on_link_up(self.now, link, to))
        else:
            self.do(self.peer.on_link_accepted(self.now, link))
        return link

    def give(self, link: LinkId, packets: list[Packet]) -> None:
        if link in self.links and packets:
            self.do(self.peer.on_packets(self.now, link, packets))

    def feed(self, link: LinkId, data: bytes) -> None:
        codec = self.links.get(link)
        if codec is None:
            return
        try:
            packets = codec.feed(data)
        except MalformedRecord:
            self.drop(link)
            return
        self.give(link, packets)

    def drop(self, link: LinkId) -> None:
        if self.links.pop(link, None) is not None:
            self.do(self.peer.on_link_down(self.now, link))

    def follow(self, upto: int = 99) -> LinkId | None:
        """Follow server 3, which sends only the first `upto` packets of the synchronisation.

        Return None if the peer does not follow server 3.
        """
        self.elect(3)
        if self.peer.state is not PeerState.FOLLOWING:
            return None
        link = self.connect(learner=True)
        epoch = Epoch(self.peer.accepted_epoch + 1)
        sent: list[Packet] = [
            LeaderInfo(epoch, True),
            Diff(self.peer.last_zxid),
            NewLeader(Zxid(epoch << 32), ""),
            UpToDate(),
        ]
        for packet in sent[:upto]:
            self.give(link, [packet])
            self.flush()
        return link

    def lead(self, upto: int = 99) -> LinkId | None:
        """Become leader, with server 2 as the only follower, and process up to `upto` packets of the follower.

        Return None if this peer does not become leader.
        """
        self.elect(1)
        if self.peer.state is not PeerState.LEADING:
            return None
        link = self.connect(learner=False)
        for step in range(min(upto, 4)):
            zxid = Zxid(self.peer.accepted_epoch << 32)
            before = (
                FollowerInfo(self.peer.accepted_epoch, PeerId(2), cumulative=True, heeds_acks=True),
                AckEpoch(self.peer.last_zxid, self.peer.current_epoch),
                Ack(zxid),
                Ack(zxid),
            )
            self.give(link, [before[step]])
            self.flush()
        return link


def _packets(choices: Choices, pool: list[Packet], peer: Peer) -> list[Packet] | bytes:
    """Return valid packets, packets with slightly wrong numbers, or damaged bytes."""
    packets: list[Packet] = []
    for _ in range(1 + choices.below(3)):
        packet = choices.one(pool)
        if choices.below(3) and "zxid" in getattr(packet, "__struct_fields__", ()) and not isinstance(packet, Snap):
            near = peer.last_zxid, peer.accepted_epoch << 32, (peer.accepted_epoch << 32) + 1, peer.last_zxid + 1
            packet = msgspec.structs.replace(packet, zxid=choices.one((*near, choices.long())))
        elif isinstance(packet, LeaderInfo | FollowerInfo) and choices.below(2):
            epoch = choices.one((peer.accepted_epoch, peer.accepted_epoch + 1, 0x7FFFFFFF, 0x7FFFFFFE, -1))
            name = "epoch" if isinstance(packet, LeaderInfo) else "accepted_epoch"
            packet = msgspec.structs.replace(packet, **{name: epoch})
        elif isinstance(packet, AckEpoch) and choices.below(2):
            packet = AckEpoch(Zxid(choices.long()), choices.one((0, -1, peer.current_epoch, 0x7FFFFFFF, -0x80000000)))
        packets.append(packet)
    if choices.below(2):
        return packets
    return b"".join(spoil(raw, choices, 2) for raw in encoded(packets, learner=pool is _FROM_LEARNER))


def _disturb(lone: Lone, choices: Choices, link: LinkId | None, pool: list[Packet]) -> None:
    step = choices.below(10)
    if step == 0:
        lone.pass_time(choices.one((10, 60, 600)))
    elif step == 1:
        lone.receive(choices.one((1, 2, 3, 4, 200)), _notification(choices, lone.peer))
    elif step == 2 and link is not None:
        lone.drop(link)
    elif step == 3:
        _client(lone, choices)
    elif step < 5:
        lone.flush()
    elif link is not None:
        sent = _packets(choices, pool, lone.peer)
        if isinstance(sent, bytes):
            lone.feed(link, sent)
        else:
            lone.give(link, sent)


def _notification(choices: Choices, peer: Peer) -> Notification:
    note = choices.one(notifications())
    rounds = (peer.round, peer.round + 1, note.round, choices.long())
    vote = Vote(PeerId(choices.one((1, 2, 3, 9, -1))), Zxid(choices.long()), Epoch(choices.long()))
    config = spoil(note.config.encode(), choices).decode("utf-8", "replace") if choices.below(2) else note.config
    return Notification(choices.one(list(PeerState)), choices.one((note.vote, vote)), choices.one(rounds), config)


def _client(lone: Lone, choices: Choices) -> None:
    lone._next += 1
    connection = ConnectionId(lone._next)
    lone.do(lone.peer.on_client_connected(lone.now, connection, ()))
    frames = [bytes.fromhex("0000000100000001") + b"\0\0\0\2/x\0\0\0\0\xff\xff\xff\xff\0\0\0\0"]
    hello = ConnectRequest(0, 0, 4000, 0, bytes(16), False)
    lone.do(lone.peer.on_clients(lone.now, [(connection, hello), (connection, Frames(frames))]))


def _check(lone: Lone) -> None:
    """Assert that the peer continues to work: it can be elected again, follow and lead.

    A peer whose tree differed from a reported digest cannot be elected until it has received a whole tree.
    """
    assert lone.halted is None, lone.halted
    for link in list(lone.links):
        lone.drop(link)
    lone.flush()
    for role in ("follow", "lead"):
        lone.pass_time(3000)
        assert lone.peer.state is PeerState.LOOKING
        lone.requested.clear()
        link = lone.follow() if role == "follow" else lone.lead()
        if role == "lead" and lone.disk.recovered().in_doubt:
            assert link is None, "the peer leads with a history in doubt"
            continue
        assert link is not None, "the peer cannot be elected any longer"
        if lone.peer.status().serving:
            lone.drop(link)
        else:
            assert role == "follow" or lone.peer.state is PeerState.LOOKING, str(lone.peer.status())
    lone.flush()


def learner(data: bytes) -> None:
    """Run a learner whose leader sends any packets."""
    choices = Choices(data)
    lone = Lone(reconfig=bool(choices.below(2)))
    link = lone.follow(choices.below(6))
    for _ in range(40):
        if not choices.left:
            break
        if link not in lone.links or lone.peer.state is PeerState.LOOKING:
            link = lone.follow(choices.below(6))
        _disturb(lone, choices, link, _FROM_LEADER)
    _check(lone)


def leader(data: bytes) -> None:
    """Run a leader whose learners send any packets."""
    choices = Choices(data)
    lone = Lone(reconfig=bool(choices.below(2)))
    link = lone.lead(choices.below(6))
    for _ in range(40):
        if not choices.left:
            break
        if lone.peer.state is PeerState.LOOKING:
            link = lone.lead(choices.below(6))
        elif link not in lone.links or choices.below(8) == 7:
            link = lone.connect(learner=False) if lone.peer.state is PeerState.LEADING else None
        _disturb(lone, choices, link, _FROM_LEARNER)
    _check(lone)


def _steps() -> list[bytes]:
    """Return inputs that send each packet once in each stage of the protocol."""
    return [
        bytes([reconfig, stage, 9, 0, packet, 0, 0, 4])
        for reconfig in (0, 1)
        for stage in range(6)
        for packet in range(len(_FROM_LEADER))
    ]


MACHINE_TARGETS: dict[str, Target] = {"learner": Target(learner, _steps), "leader": Target(leader, _steps)}
