"""A run's messages over HTTP: each message in a time window is shown or counted, whichever node journaled it."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import FakeAgent, Server
from tests.api.histories import kept_run
from zabka.agent.protocol import JournalAnswer, JournalChunk, Position
from zabka.api.collector.agents import SILENT_AFTER_S, Agents
from zabka.api.collector.collector import Collector
from zabka.api.runs.catalogue import LIVE, Runs
from zabka.api.runs.intake import SIMULATION_BEGINS_US
from zabka.api.runs.kept import KeptRuns
from zabka.api.runs.messages import LONGEST_US, KeptMessages, Messages, RunMessages, Window
from zabka.api.settings import AgentAddress
from zabka.journal.messages import CLASSES, Message, message_line
from zabka.journal.sightings import UNSEEN, Matcher, Sighting, sighting_line
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.scenarios.library import LIBRARY, play

FAILOVER_US = (8_505_000, 8_530_000)
"""The 25 ms in which the controller detects a dead broker and notifies the others, in script kafka-1211."""


@pytest.fixture(scope="module")
def recorded() -> tuple[MessageTap, list[Any]]:
    tap, tap_of_bug = MessageTap(), MessageTap()
    verdict = play(LIBRARY["kafka-1211"], tap, tap_of_bug)
    return tap, verdict.journal


def window(**changes: Any) -> Window:
    begin, end = FAILOVER_US
    return Window(**{"from_us": begin, "to_us": end, "classes": frozenset(), "limit": 5_000, **changes})


def within(message: Message) -> bool:
    """Return whether the message was in flight at any time during the failover."""
    ended = message.sent_us if message.arrived_us is None else message.arrived_us
    return message.sent_us <= FAILOVER_US[1] and ended >= FAILOVER_US[0]


def test_every_message_of_a_time_window_is_shown_or_counted(recorded: tuple[MessageTap, list[Any]]) -> None:
    tap, _ = recorded
    there = [message for message in tap.messages if within(message)]
    assert len(there) > 50
    messages = Messages(tap.messages)
    for classes, limit in ((frozenset(), 5_000), (frozenset({"controller"}), 5_000), (frozenset(), 7)):
        found = messages.select(window(classes=classes, limit=limit))
        shown = Counter(message.group for message in found.messages)
        assert shown + Counter(found.hidden) == Counter(message.group for message in there)
        assert found.truncated == (limit == 7)
        assert [each.id for each in found.messages] == sorted(each.id for each in found.messages)


def test_message_in_flight_during_the_window_is_included() -> None:
    slow = Message(1, 0, LONGEST_US - 1, "a", "b", "data", "Produce", {})
    messages = Messages([slow])
    assert messages.select(Window(1_000, 2_000, frozenset(), 10)).messages == [slow]


def test_messages_of_a_stored_run_are_read_from_its_file(
    tmp_path: Path, recorded: tuple[MessageTap, list[Any]]
) -> None:
    tap, journal = recorded
    with Server(tmp_path) as server:
        kept: KeptRuns = server.services.runs.kept
        file = tmp_path / "heard.jsonl"
        file.write_bytes(b"".join(tap.lines()))
        run = kept_run("r00000001", 1, tuple(journal))
        kept.keep(run, journal, file)
        kept.admit(run)
        url = f"{server.url}/api/v1/runs/r00000001"
        assert httpx.get(url).json()["messages"] is True
        begin, end = FAILOVER_US
        asked = {
            "from_us": SIMULATION_BEGINS_US + begin,
            "to_us": SIMULATION_BEGINS_US + end,
            "classes": "controller,broadcast",
        }
        answer = httpx.get(f"{url}/messages", params=asked)
        assert answer.status_code == 200
        found = answer.json()
    kinds = Counter(message["kind"] for message in found["messages"])
    assert kinds["LeaderAndIsr"] == kinds["LeaderAndIsr answer"] == 4
    there = [message for message in tap.messages if within(message)]
    assert len(found["messages"]) + sum(found["hidden"].values()) == len(there)
    assert set(found["hidden"]) <= set(CLASSES) - {"controller", "broadcast"}


def test_run_without_recorded_messages_has_no_message_list(tmp_path: Path) -> None:
    found = asyncio.run(KeptMessages().of(tmp_path / "messages.jsonl"))
    assert found.select(window()).messages == []


class Talking(FakeAgent):
    """Agent whose nodes have journaled the messages in `lines`. It returns one message per chunk."""

    lines: list[tuple[str, bytes]]

    async def read_messages(self, positions: dict[str, Position]) -> JournalAnswer:
        chunks = []
        for node, position in positions.items():
            own = [line for name, line in self.lines if name == node]
            if position.offset < len(own):
                chunks.append(JournalChunk(node, own[position.offset], Position("f", position.offset + 1)))
        return JournalAnswer(chunks)


def sighted(node: str, way: Any, us: int, key: str) -> tuple[str, bytes]:
    line = sighting_line(
        Sighting(n=1, node=node, us=us, way=way, line="x|y", key=key, group="election", kind="Notification", subject={})
    )
    return node, line


def test_live_messages_are_matched_between_sender_and_receiver(tmp_path: Path) -> None:
    server = Server(tmp_path)
    talking = Talking(server.services.settings.agents[0])
    talking.lines = [
        sighted("peer-1", "sent", 1_000, "Notification#1"),
        sighted("peer-2", "received", 1_200, "Notification#1"),
        sighted("peer-1", "sent", 2_000, "Notification#2"),
        ("peer-1", b"no message\n"),
    ]
    server.services.agents.all[:] = [talking]
    with server:
        url = f"{server.url}/api/v1/runs/live/messages"
        first = httpx.get(url).json()["messages"]
        talking.lines.append(sighted("peer-2", "received", 2_300, "Notification#2"))
        second = httpx.get(url).json()["messages"]
    assert [(each["from"], each["to"], each["sent_us"], each["arrived_us"]) for each in first] == [
        ("peer-1", "peer-2", 1_000, 1_200),
        ("peer-1", "peer-2", 2_000, None),
    ]
    assert first[1]["lost"] == UNSEEN
    assert (second[1]["arrived_us"], second[1]["lost"]) == (2_300, None)


class Hanging(Talking):
    """Agent that never replies to requests for its nodes' messages."""

    async def read_messages(self, positions: dict[str, Position]) -> JournalAnswer:
        await asyncio.Event().wait()
        raise AssertionError


def test_silent_host_does_not_delay_messages_of_other_hosts(tmp_path: Path) -> None:
    here, away = [AgentAddress(name=name, url="", nodes=[node]) for name, node in (("h1", "peer-1"), ("h2", "peer-2"))]

    async def asked() -> list[int]:
        talking, hanging = Talking(here), Hanging(away)
        talking.lines = [sighted("peer-1", "sent", 1_000, "Notification#1")]
        hanging.freeze(for_s=SILENT_AFTER_S)
        messages = RunMessages(Agents([talking, hanging]), Runs(Collector(tmp_path / "c"), KeptRuns(tmp_path / "runs")))
        found = await asyncio.wait_for(messages.select(LIVE, window(from_us=0, to_us=2_000)), 10)
        return [message.sent_us for message in found.messages]

    assert asyncio.run(asked()) == [1_000]


def test_api_responds_while_messages_are_matched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answered = threading.Event(), threading.Event()

    def slowly(_: Matcher) -> list[Message]:
        asked.set()
        assert answered.wait(20)
        return []

    monkeypatch.setattr(Matcher, "messages", slowly)
    server = Server(tmp_path)
    talking = Talking(server.services.settings.agents[0])
    talking.lines = [sighted("peer-1", "sent", 1_000, "Notification#1"), ("peer-1", b'{"n": "\xff"}\n')]
    server.services.agents.all[:] = [talking]
    with server, ThreadPoolExecutor() as pool:
        answer = pool.submit(httpx.get, f"{server.url}/api/v1/runs/live/messages", timeout=30)
        assert asked.wait(20)
        assert httpx.get(f"{server.url}/healthz", timeout=10).status_code == 200
        answered.set()
        assert answer.result(20).json()["messages"] == []


def test_invalid_message_requests_are_rejected(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        base = f"{server.url}/api/v1/runs"
        assert httpx.get(f"{base}/r99999999/messages").status_code == 404
        refused = httpx.get(f"{base}/live/messages", params={"classes": "gossip"})
        assert refused.status_code == 422
        assert "there is no class gossip" in refused.json()["detail"]
        assert httpx.get(f"{base}/live/messages", params={"limit": -1}).status_code == 422


def test_message_file_reads_back_as_written(tmp_path: Path) -> None:
    message = Message(1, 5, None, "peer-1", "peer-2", "ping", "PING", {}, lost="the link was cut")
    path = tmp_path / "messages.jsonl"
    path.write_bytes(message_line(message))
    (found,) = asyncio.run(KeptMessages().of(path)).select(Window(0, 2**62, frozenset(), 10)).messages
    assert found.sent_us == SIMULATION_BEGINS_US + message.sent_us
    assert (found.arrived_us, found.lost) == (None, "the link was cut")
