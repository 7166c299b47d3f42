"""Clients that write, read and watch znodes, and record each operation and its reply in a history to check.

The checks are linearizability of writes and quorum reads (sync, then getData) of every znode, FIFO order per session
(`zabka.journal.checkers.session_order`), and that ephemerals exist exactly as long as their session. The clients work
in the same way in the simulator and against real processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import WatchEvent
from zabka.ensemble.errors import BadVersion, ConnectionLoss, NodeExists, NoNode, SessionExpired, ZooKeeperError
from zabka.ensemble.records import EventType
from zabka.journal.checkers.linearizability import Operation, Verdict, check
from zabka.journal.checkers.session_order import Seen, violations
from zabka.journal.checkers.znode_register import ANY_VERSION, UNKNOWN, Answered, Asked, step

HISTORIES, ALIVE = "/histories", "/alive"
"""Parent znodes of the keys that clients write and of the clients' ephemerals; both must exist."""
KEYS_AT_A_TIME = 3
KEYS_LAST_S = 4.0
"""Time after which clients switch to new keys.

A key's history grows as long as clients use the key, and short histories are fast to check.
"""
PAUSE_S = 0.004
SESSION_TIMEOUT_MS = 6000
_OUTCOMES: dict[type[ZooKeeperError], Answered] = {
    NoNode: Answered("no_node"),
    NodeExists: Answered("node_exists"),
    BadVersion: Answered("bad_version"),
}


class History:
    """All operations of all clients, with their results, as recorded."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.seen: list[Seen] = []
        self.ephemerals: dict[str, str] = {}
        """Ephemeral of each live session, keyed by client."""
        self.sessions_expired = 0


def now_us() -> int:
    """Return the monotonic time in microseconds; all times in a history are from this clock."""
    return time.monotonic_ns() // 1000


class Player:
    """Client that runs random operations, and opens a new session whenever its session expires."""

    def __init__(self, name: str, client: Client, history: History, seed: int, pause_s: float = PAUSE_S) -> None:
        self._name = name
        self._history = history
        self._pause_s = pause_s
        self._random = random.Random(f"{seed}/{name}")
        self._client = client
        self._sessions = 1
        self._versions: dict[str, int] = {}

    @property
    def _session(self) -> str:
        return f"{self._name}.{self._sessions}"

    async def play(self, is_done: Callable[[], bool]) -> None:
        """Run random operations until `is_done()` returns True; do not close the session."""
        await self._client.start()
        began_s = time.monotonic()
        while not is_done():
            try:
                await self._live()
                epoch = int((time.monotonic() - began_s) / KEYS_LAST_S)
                await self._turn(f"{HISTORIES}/{epoch}-{self._random.randrange(KEYS_AT_A_TIME)}")
                await asyncio.sleep(self._pause_s)
            except ConnectionLoss:
                await asyncio.sleep(0.05)
            except SessionExpired:
                self._history.sessions_expired += 1
                self._history.ephemerals.pop(self._name, None)
                self._sessions += 1
                await self._client.renew()

    async def close_session(self) -> None:
        """End the session and disconnect."""
        await self._client.close()

    async def check_alive(self) -> str | None:
        """Return an error message if the session is alive but its ephemeral does not exist, otherwise None."""
        path = self._history.ephemerals.get(self._name)
        if path is None:
            return None
        try:
            await self._client.sync("/")
            stat = await self._client.exists(path)
        except SessionExpired:
            return None
        return f"{path} is gone, and its session lives" if stat is None else None

    async def _live(self) -> None:
        """Create this session's ephemeral if it is not created yet.

        The ephemeral may exist although no reply was received, because the reply to an earlier create was lost.
        """
        if self._name in self._history.ephemerals:
            return
        path = f"{ALIVE}/{self._session}"
        with contextlib.suppress(NodeExists):
            await self._client.create(path, b"", ephemeral=True)
        self._history.ephemerals[self._name] = path

    async def _turn(self, path: str) -> None:
        choice = self._random.random()
        data = b"%s %d" % (self._name.encode(), len(self._history.operations))
        if choice < 0.10:
            await self._ask(path, Asked("create", data))
        elif choice < 0.13:
            await self._ask(path, Asked("delete", b"", ANY_VERSION))
        elif choice < 0.30:
            await self._ask(path, Asked("set", data, self._versions.get(path, ANY_VERSION)))
        elif choice < 0.45:
            await self._ask(path, Asked("set", data))
        elif choice < 0.55:
            # Send a read immediately after a write, without awaiting the write.
            written = asyncio.ensure_future(self._ask(path, Asked("set", data)))
            await asyncio.sleep(0)
            for ended in await asyncio.gather(written, self._look(path, watch=False), return_exceptions=True):
                if ended is not None:
                    raise ended
        elif choice < 0.80:
            await self._ask(path, Asked("read"))
        else:
            await self._look(path, watch=choice < 0.90)

    async def _ask(self, path: str, asked: Asked) -> None:
        """Run one operation, and record it for the linearizability check."""
        called_us = now_us()
        try:
            answered = await self._answer(path, asked)
        except (ConnectionLoss, SessionExpired):
            if asked.verb != "read":
                self._note(path, called_us, None, asked, UNKNOWN)
            raise
        self._note(path, called_us, now_us(), asked, answered)

    def _note(
        self, path: str, called_us: int, returned_us: int | None, asked: Asked, answered: Answered | None
    ) -> None:
        operation = Operation(self._session, path, called_us, returned_us, asked, answered)
        self._history.operations.append(operation)

    async def _answer(self, path: str, asked: Asked) -> Answered:
        client = self._client
        try:
            if asked.verb == "create":
                await client.create(path, asked.data)
                return Answered("ok")
            if asked.verb == "delete":
                await client.delete(path, asked.version)
                return Answered("ok")
            if asked.verb == "set":
                written: Any = client.set(path, asked.data, asked.version)
                written.add_done_callback(self._saw("wrote", path, lambda stat: stat.mzxid))
                return Answered("ok", b"", (await written).version)
            synced = client.sync(path)
            read: Any = client.get(path)
            read.add_done_callback(self._saw("read", path, lambda answer: answer[1].mzxid))
            await synced
            data, stat = await read
        except (NoNode, NodeExists, BadVersion) as refused:
            return _OUTCOMES[type(refused)]
        self._versions[path] = stat.version
        return Answered("ok", data, stat.version)

    async def _look(self, path: str, watch: bool) -> None:
        """Read a znode without sync, and record the read for the session order check, which allows stale data."""
        session = self._session

        def fired(event: WatchEvent) -> None:
            if event.type is not EventType.NONE:
                # Record the event one iteration of the loop later, as the callback of a future does, so that replies
                # and events are recorded in the order of their frames.
                asyncio.get_running_loop().call_soon(self._history.seen.append, Seen(session, "event", path))

        read: Any = self._client.get(path, fired) if watch else self._client.get(path)
        read.add_done_callback(self._saw("watched" if watch else "read", path, lambda answer: answer[1].mzxid))
        with contextlib.suppress(NoNode):
            await read

    def _saw(self, kind: Any, path: str, zxid_of: Callable[[Any], int]) -> Callable[[Any], None]:
        session = self._session

        def note(future: asyncio.Future[Any]) -> None:
            if not future.cancelled() and future.exception() is None:
                self._history.seen.append(Seen(session, kind, path, zxid_of(future.result())))

        return note


class HistoryResult(NamedTuple):
    """Number of checks, and the violations found."""

    operations: int
    keys: int
    seen: int
    sessions_expired: int
    wrong: list[str]


def check_history(history: History, wrong: list[str]) -> HistoryResult:
    """Run all checks on a recorded history."""
    verdicts = check(history.operations, step, None)
    found = wrong + [_describe(verdict) for verdict in verdicts if not verdict.linearizable] + violations(history.seen)
    return HistoryResult(len(history.operations), len(verdicts), len(history.seen), history.sessions_expired, found)


def _describe(verdict: Verdict) -> str:
    if verdict.linearizable is None:
        return f"{verdict.key}: not decided after {verdict.steps} steps"
    stuck = "; ".join(f"{o.client} {o.asked} -> {o.answered}" for o in verdict.stuck)
    return f"{verdict.key} is not linearizable: after {len(verdict.placed)} operations none of these fits: {stuck}"
