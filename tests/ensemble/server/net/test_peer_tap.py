"""The messages that a peer's message log contains, and the client messages that it omits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zabka.ensemble.ids import ConnectionId, SessionId, Zxid
from zabka.ensemble.records import OPEN_ACL, ConnectRequest, ConnectResponse, OpCode
from zabka.ensemble.server.net.peer_tap import PeerTap
from zabka.ensemble.txn import CloseSessionTxn, CreateSessionTxn, CreateTxn, SetDataTxn, Txn
from zabka.ensemble.zab.messages import Ack, Commit, FollowerInfo, Ping, Proposal
from zabka.journal.message_log import MessageLog, message_files
from zabka.journal.sightings import Sighting, read_sighting

BROKER, OTHER = 0x100, 0x200


class Connected:
    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 2888 if name == "sockname" else 40_000)


class TapRecords:
    """A peer's message log, one connection to a client, and the messages recorded for this connection."""

    def __init__(self, directory: Path, level_is_all: bool) -> None:
        self._directory = directory
        self.log = MessageLog(directory, "peer-1", hears_everything=level_is_all)
        self.tap = PeerTap(self.log)
        self.line = self.tap.line(Connected(), 2)
        self.next = 0x100000000

    def propose(self, session: int, op: OpCode, body: Any) -> Zxid:
        self.next += 1
        txn = Txn(SessionId(session), 1, Zxid(self.next), 0, op, body)
        self.tap.packets_sent(self.line, [Proposal((txn,))])
        return Zxid(self.next)

    def register(self) -> Zxid:
        return self.propose(BROKER, OpCode.CREATE, CreateTxn("/brokers/ids/7", b"{}", OPEN_ACL, True, 1))

    def write(self, session: int) -> Zxid:
        return self.propose(session, OpCode.SET_DATA, SetDataTxn("/a", b"x", 1))

    def written(self) -> list[Sighting]:
        self.log.close()
        files = message_files(self._directory, "peer-1")
        return [read_sighting(line) for path in files for line in path.read_bytes().splitlines()]


@pytest.fixture
def control(tmp_path: Path) -> TapRecords:
    return TapRecords(tmp_path, level_is_all=False)


def test_peer_tap_records_only_writes_of_brokers(control: TapRecords) -> None:
    before = control.write(BROKER)
    registered, mine, others = control.register(), control.write(BROKER), control.write(OTHER)
    for zxid in (before, registered, mine, others):
        control.tap.packets_received(control.line, [Ack(zxid)])
        control.tap.packets_sent(control.line, [Commit(zxid)])
    sent = [(each.kind, each.subject["zxid"]) for each in control.written()]
    assert [zxid for kind, zxid in sent if kind == "PROPOSAL"] == [hex(registered), hex(mine)]
    for kind in ("ACK", "COMMIT"):
        assert [zxid for each, zxid in sent if each == kind] == [hex(registered), hex(mine)]


def test_peer_tap_records_cumulative_acks_of_recorded_txns(control: TapRecords) -> None:
    control.register()
    later = control.write(OTHER)
    control.tap.packets_received(control.line, [Ack(later, cumulative=True), Ack(Zxid(later + 1), cumulative=True)])
    acks = [each for each in control.written() if each.kind == "ACK"]
    assert [each.subject["zxid"] for each in acks] == [hex(later)]


def test_peer_tap_records_all_sessions_until_they_end(control: TapRecords) -> None:
    control.propose(OTHER, OpCode.CREATE_SESSION, CreateSessionTxn(4_000))
    control.register()
    control.propose(BROKER, OpCode.CLOSE_SESSION, CloseSessionTxn(["/brokers/ids/7"]))
    control.write(BROKER)
    assert [each.subject["op"] for each in control.written()] == ["createSession", "create", "closeSession"]


def test_closed_clients_leave_no_state_in_the_tap(control: TapRecords) -> None:
    tap = control.tap
    for number in range(50):
        connection, session = ConnectionId(number), SessionId(1_000 + number % 40)
        tap.received_from_client(connection, Connected(), [ConnectRequest(0, Zxid(0), 4_000, session, b"", False)])
        tap.sent_to_client(connection, ConnectResponse(0, 4_000, session, b"", False))
    assert sizes(tap)
    for number in range(50):
        tap.client_gone(ConnectionId(number))
    assert not sizes(tap)


def sizes(tap: PeerTap) -> int:
    return sum(len(held) for held in vars(tap).values() if isinstance(held, dict))


def test_peer_tap_records_phases_and_pings_only_in_full_mode(tmp_path: Path) -> None:
    packets = [FollowerInfo(1, 2), Ping(Zxid(1))]  # type: ignore[arg-type]
    kinds = []
    for everything in (False, True):
        records = TapRecords(tmp_path / str(everything), level_is_all=everything)
        records.tap.packets_sent(records.line, packets)
        kinds.append([each.kind for each in records.written()])
    assert kinds == [["FOLLOWERINFO"], ["FOLLOWERINFO", "PING"]]
