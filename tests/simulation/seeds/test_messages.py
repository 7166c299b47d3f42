"""A message tap records every message in a world of whole processes, and does not change the run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from zabka.journal.events import ControllerElected, Entry, FaultInjected, TxnProposed
from zabka.journal.messages import Message
from zabka.journal.reader import decode_line
from zabka.journal.sightings import UNSENT
from zabka.simulation.cluster.peer_machine import CLIENT_PORT, ELECTION_PORT, QUORUM_PORT
from zabka.simulation.engine.machine import Ground, Machine, Main
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.engine.tap_feed import NEVER_READ, ProcessNotes
from zabka.simulation.engine.transports import SocketTransport
from zabka.simulation.run import run_with_journal
from zabka.simulation.seeds.whole_cluster import WHOLE_CLUSTER
from zabka.simulation.seeds.whole_ensemble import WHOLE

SEED = {WHOLE: 1, WHOLE_CLUSTER: 3}
"""Seed for each scenario. In its run, a process is killed and a machine loses power. There are three peers."""
END_OF_SNAPSHOT = b"\0\0\0\nBenWasHere"
SNAP = 15
Performed = tuple[MessageTap, list[Entry], dict[tuple[str, int, str, int], bytearray], dict[str, str]]


def listen(scenario: str, monkeypatch: pytest.MonkeyPatch) -> Performed:
    """Run a seed.

    Return its message tap, its journal, the bytes that each end of each connection has written, and the machines' names
    by address.
    """
    written: dict[tuple[str, int, str, int], bytearray] = defaultdict(bytearray)
    names: dict[str, str] = {}
    write, attach = SocketTransport.write, Machine.__init__

    def kept(transport: SocketTransport, data: Any) -> None:
        here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        written[(*here, *there)] += data
        write(transport, data)

    def known(machine: Machine, ground: Ground, name: str, address: str, main: Main, **more: Any) -> None:
        names[address] = name
        attach(machine, ground, name, address, main, **more)

    monkeypatch.setattr(SocketTransport, "write", kept)
    monkeypatch.setattr(Machine, "__init__", known)
    tap = MessageTap()
    _, lines = run_with_journal(SEED[scenario], scenario, tap=tap)
    return tap, [decode_line(line) for line in lines], written, names


@pytest.fixture(scope="module", params=[WHOLE, WHOLE_CLUSTER])
def told(request: pytest.FixtureRequest) -> Iterator[Performed]:
    with pytest.MonkeyPatch.context() as patches:
        yield listen(request.param, patches)


# -- counting messages in the written bytes --------------------------------------------------------------------------


def frames(data: bytes) -> int:
    """Return the number of frames in the bytes. Each frame starts with its length."""
    count = at = 0
    while at + 4 <= len(data):
        at += 4 + int.from_bytes(data[at : at + 4])
        count += 1
    return count


def opening(data: bytes) -> int:
    """Return the size of the first message on an election connection.

    It contains a version, the id, and the addresses after their size (QuorumCnxManager.InitialMessage).
    """
    return 20 + int.from_bytes(data[16:20]) if data else 0


def behind(data: bytes, at: int) -> int:
    """Return the position after the buffer at `at`.

    The buffer starts with its size, which is -1 for a null buffer.
    """
    return at + 4 + max(0, int.from_bytes(data[at : at + 4], signed=True))


def packets(data: bytes) -> int:
    """Return the number of packets in the bytes of a quorum connection.

    A QuorumPacket has a type, a zxid, data, and authinfo: pairs of scheme and id. A snapshot without a frame follows
    SNAP.
    """
    count = at = 0
    while at < len(data):
        kind, at = int.from_bytes(data[at : at + 4]), behind(data, at + 12)
        identities = max(0, int.from_bytes(data[at : at + 4], signed=True))
        at += 4
        for _ in range(2 * identities):
            at = behind(data, at)
        count += 1
        if kind == SNAP:
            end = data.find(END_OF_SNAPSHOT, at)
            at = len(data) if end < 0 else end + len(END_OF_SNAPSHOT)
    return count


def said(written: dict[tuple[str, int, str, int], bytearray], names: dict[str, str]) -> Counter[tuple[str, str, bool]]:
    """Count the messages in the written bytes, keyed by (sender, receiver, is an election connection)."""
    found: Counter[tuple[str, str, bool]] = Counter()
    for (here, port, there, other_port), data in written.items():
        way = names[here], names[there]
        if QUORUM_PORT in (port, other_port):
            found[*way, False] += packets(data)
        elif ELECTION_PORT in (port, other_port):
            found[*way, True] += frames(data[opening(data) if other_port == ELECTION_PORT else 0 :])
        else:
            found[*way, False] += frames(data)
    return found


def differences(told: Performed) -> list[str]:
    """Return the pairs of processes for which the tap has more or fewer messages than the written bytes.

    Messages on a connection that ended in the same turn are never written.
    """
    tap, _, written, names = told
    there = said(written, names)
    heard = Counter((each.source, each.target, each.group == "election") for each in tap.messages)
    arrived = Counter(
        (each.source, each.target, each.group == "election") for each in tap.messages if each.arrived_us is not None
    )
    return [
        f"{way}: {there[way]} in bytes, {heard[way]} heard, {arrived[way]} of them read"
        for way in sorted({*there, *heard})
        if not arrived[way] <= there[way] <= heard[way]
    ]


def test_recorded_messages_agree_with_the_bytes_sent(told: Performed) -> None:
    assert differences(told) == []
    assert {port for key in told[2] for port in key if port in (CLIENT_PORT, QUORUM_PORT, ELECTION_PORT)} == {
        CLIENT_PORT, QUORUM_PORT, ELECTION_PORT,
    }  # fmt: skip


def test_message_missing_from_the_record_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    note, noted = ProcessNotes.note, Counter[str]()

    def forgetful(notes: ProcessNotes, us: int, sent: bool, line: Any, key: str, content: Any, size: Any) -> None:
        noted[content.kind] += 1
        if content.kind != "COMMIT" or noted["COMMIT"] > 6:
            note(notes, us, sent, line, key, content, size)

    monkeypatch.setattr(ProcessNotes, "note", forgetful)
    told = listen(WHOLE_CLUSTER, monkeypatch)
    assert differences(told) or [each for each in told[0].messages if each.lost == UNSENT]


# -- properties of every message -------------------------------------------------------------------------------------


def test_every_message_arrives_after_it_is_sent_or_is_lost(told: Performed) -> None:
    tap, journal, *_ = told
    assert tap.messages
    for message in tap.messages:
        assert (message.arrived_us is None) == (message.lost == NEVER_READ)
        assert message.arrived_us is None or message.arrived_us > message.sent_us
        assert message.lost in (None, NEVER_READ), "nobody reads what nobody has sent"
    assert [message.id for message in tap.messages] == list(range(1, len(tap.messages) + 1))
    ends = [message.arrived_us or message.sent_us for message in tap.messages]
    assert max(ends) < journal[-1].mono_us + 10_000_000, "they are on the world's clock, as the journal is"


def test_messages_arrive_unless_a_process_is_dead(told: Performed) -> None:
    tap, journal, *_ = told
    lost = [message for message in tap.messages if message.arrived_us is None]
    assert 0 < len(lost) < len(tap.messages) / 20
    injected = {
        entry.event.target
        for entry in journal
        if isinstance(entry.event, FaultInjected) and entry.event.kind in ("crash", "power_loss")
    }
    assert injected
    assert any(injected & {message.source, message.target} for message in lost)


def test_every_recorded_response_has_its_request(told: Performed) -> None:
    tap, *_ = told
    by_id = {message.id: message for message in tap.messages}
    answers = [message for message in tap.messages if message.answers is not None]
    assert len(answers) > 500
    for answer in answers:
        asked = by_id[answer.answers or 0]
        assert (answer.source, answer.target) == (asked.target, asked.source)
        assert asked.arrived_us is not None
        assert asked.arrived_us <= answer.sent_us


def test_recorded_messages_agree_with_the_journal(told: Performed) -> None:
    tap, journal, *_ = told
    proposed = {entry.event.zxid for entry in journal if isinstance(entry.event, TxnProposed)}
    told_of = [message for message in tap.messages if message.kind == "PROPOSAL"]
    assert told_of
    assert {int(message.subject["zxid"], 16) for message in told_of} <= proposed
    controller_terms = {
        (f"broker-{entry.event.broker_id}", entry.event.controller_epoch)
        for entry in journal
        if isinstance(entry.event, ControllerElected)
    }
    asked = [message for message in tap.messages if message.kind in ("LeaderAndIsr", "UpdateMetadata")]
    assert {(message.source, message.subject["controller_epoch"]) for message in asked} <= controller_terms
    assert bool(asked) == bool(controller_terms)


# -- the tap changes no history ----------------------------------------------------------------------------------------


def test_message_recording_does_not_change_the_history(told: Performed) -> None:
    _, journal, *_ = told
    scenario = WHOLE_CLUSTER if any(entry.node.startswith("broker-") for entry in journal) else WHOLE
    _, lines = run_with_journal(SEED[scenario], scenario)
    assert [decode_line(line) for line in lines] == journal


@pytest.mark.long
def test_recorded_messages_do_not_depend_on_the_hash_seed() -> None:
    tap = MessageTap()
    run_with_journal(SEED[WHOLE_CLUSTER], WHOLE_CLUSTER, tap=tap)
    code = (
        "from hashlib import sha256; from zabka.simulation.engine.tap import MessageTap; "
        "from zabka.simulation.run import run_with_journal; tap = MessageTap(); "
        f"run_with_journal({SEED[WHOLE_CLUSTER]}, 'whole-cluster', tap=tap); "
        "print(sha256(b''.join(tap.lines())).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout == f"{sha256(b''.join(tap.lines())).hexdigest()}\n"


def test_control_messages_have_a_broker_at_each_end(told: Performed) -> None:
    tap, *_ = told

    def is_control(message: Message) -> bool:
        return message.group == "controller"

    assert all(message.source.startswith("broker-") for message in filter(is_control, tap.messages))
