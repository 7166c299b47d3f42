"""Request faults at a peer's client port, injected into incoming requests and outgoing replies.

ZooKeeper replies to the requests of a connection in order. So a request that must not be applied is replaced by a
harmless one, `exists /`, whose reply is replaced by the error. A delayed request delays the later requests of its
connection, and a reply can be dropped only together with its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple, Protocol

from zabka.ensemble.auth.schemes import AuthId, principal
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.op_names import op_name
from zabka.ensemble.records import ClientMessage, Frames, OpCode, PathWatchRequest, ReplyFrames, Request
from zabka.ensemble.request_fault import ZOOKEEPER_ERRORS, HeldRequestFault
from zabka.ensemble.request_fault_uses import ActiveFaults, Counts, CountUse, FaultUses
from zabka.ensemble.zookeeper_faults import ZooKeeperSubject, matches, subject_of
from zabka.journal.cause import fault_cause
from zabka.journal.events import Event, RequestFaultApplied

PATH_CHARACTERS_MAX = 260
_SIZE = Struct(">i")
_REPLY_HEAD = Struct(">iiqi")
"""Header of a framed reply: length, xid, zxid and error code."""
_ON_ANSWER = frozenset({"error", "delay_after", "drop_response", "truncate"})


class FaultedConnection(Protocol):
    """Interface of a client connection to which request faults are applied."""

    remote: str
    out: list[bytes]
    fault_state: ConnectionState | None

    def proved(self) -> Sequence[AuthId]:
        """Return the identities that the client has proved."""
        ...

    def deliver(self, messages: list[ClientMessage]) -> None:
        """Pass messages to the peer without applying faults."""
        ...

    def flush(self) -> None: ...
    def close(self) -> None: ...


class ConnectionState:
    """State of the request faults in progress on one connection.

    `on_answer` maps xids to the rules for their replies. `held_requests` and `held_answers` wait for the end of a
    delay; they are None without a delay. While `is_silent`, no further request is read.
    """

    __slots__ = ("held_answers", "held_requests", "is_silent", "on_answer")

    def __init__(self) -> None:
        self.on_answer: dict[int, HeldRequestFault] = {}
        self.held_requests: list[bytes] | None = None
        self.held_answers: list[bytes] | None = None
        self.is_silent = False


class _Due(NamedTuple):
    uses: FaultUses
    subject: ZooKeeperSubject


class ClientFaults:
    """The active request faults of one peer.

    `emit` receives an event for each request to which a rule is applied, `draw` returns a random number in [0, 1), and
    `count` increments the counts that all nodes share.
    """

    def __init__(
        self, emit: Callable[[Event], object], draw: Callable[[], float], now_ms: Callable[[], int],
        count: CountUse,
    ) -> None:  # fmt: skip
        self._active = ActiveFaults(count)
        self._emit = emit
        self._draw = draw
        self._now_ms = now_ms

    def hold(self, rules: Sequence[HeldRequestFault]) -> None:
        """Replace the active rules; rules that were active before keep their counts.

        Effects in progress are completed.
        """
        self._active.replace(rules, self._now_ms())

    def counts(self) -> Counts:
        """Return the numbers of matching requests and of requests to which the rule was applied, keyed by rule id."""
        return self._active.counts()

    # ---- requests -----------------------------------------------------------------------------------------------

    def received(self, connection: FaultedConnection, messages: list[ClientMessage]) -> list[ClientMessage]:
        """Apply the request faults to received messages; return the messages to pass to the peer now."""
        if not self._active and connection.fault_state is None:
            return messages
        passed: list[ClientMessage] = []
        for message in messages:
            if isinstance(message, Frames):
                frames = self._pass(connection, message.frames)
                passed += [Frames(frames)] if frames or not message.frames else []
            else:
                passed.append(message)
        return passed

    def _pass(self, connection: FaultedConnection, frames: Sequence[bytes]) -> list[bytes]:
        passed: list[bytes] = []
        for position, frame in enumerate(frames):
            state = connection.fault_state
            if state is not None and state.is_silent:
                break
            if state is not None and state.held_requests is not None:
                state.held_requests += frames[position:]
                break
            due = self._due(connection, frame)
            if due is None:
                passed.append(frame)
                continue
            self._report(due, connection)
            passed += self._apply(due.uses.rule, connection, frame)
        return passed

    def _due(self, connection: FaultedConnection, frame: bytes) -> _Due | None:
        try:
            request = Request.decode(frame)
        except MalformedRecord:
            return None
        subject = subject_of(request)
        principals = [principal(each) for each in connection.proved()]
        uses = self._active.due(lambda rule: matches(rule, subject, principals), self._now_ms(), self._draw)
        return None if uses is None else _Due(uses, subject)

    def _report(self, due: _Due, connection: FaultedConnection) -> None:
        rule, path = due.uses.rule, next(iter(due.subject.paths), "")
        self._emit(
            RequestFaultApplied(
                rule.id,
                op_name(due.subject.op),
                connection.remote,
                path[:PATH_CHARACTERS_MAX],
                rule.effect,
                due.uses.applied,
                caused_by=fault_cause(rule.id),
            )
        )

    def _apply(self, rule: HeldRequestFault, connection: FaultedConnection, frame: bytes) -> list[bytes]:
        """Apply a rule's effect to a request; return the frames to pass to the peer now."""
        state = connection.fault_state = connection.fault_state or ConnectionState()
        if rule.effect in _ON_ANSWER:
            xid = _SIZE.unpack_from(frame)[0]
            state.on_answer[xid] = rule
            return [_harmless(xid)] if rule.effect == "error" else [frame]
        if rule.effect == "delay_before":
            state.held_requests = []
            asyncio.get_running_loop().call_later(rule.delay_ms / 1000, self._release, connection, frame)
            return []
        state.is_silent = True
        if rule.effect == "close":
            # Close the connection in the next turn, after the earlier requests of the same read were passed on, so that
            # the replies to these are still sent.
            asyncio.get_running_loop().call_soon(connection.close)
        return []

    def _release(self, connection: FaultedConnection, frame: bytes) -> None:
        """Pass a delayed request to the peer, and then the requests that waited for it."""
        state = connection.fault_state
        if state is None or state.held_requests is None:
            return
        later, state.held_requests = state.held_requests, None
        connection.deliver([Frames([frame])])
        if later:
            passed = self._pass(connection, later)
            connection.deliver([Frames(passed)] if passed else [])
        connection.flush()

    # ---- replies ------------------------------------------------------------------------------------------------

    def answered(self, connection: FaultedConnection, framed: ReplyFrames) -> None:
        """Apply the request faults to replies, and queue them for sending; each has its length prefix."""
        state = connection.fault_state
        if state is None or (not state.on_answer and state.held_answers is None):
            connection.out.append(framed)
            return
        position = 0
        while position < len(framed):
            end = position + 4 + _SIZE.unpack_from(framed, position)[0]
            if not self._answer(connection, state, framed[position:end]):
                return
            position = end

    def _answer(self, connection: FaultedConnection, state: ConnectionState, reply: bytes) -> bool:
        """Apply a fault to one reply and queue the reply; return False if the connection is closed instead."""
        if state.held_answers is not None:
            state.held_answers.append(reply)
            return True
        _, xid, zxid, _ = _REPLY_HEAD.unpack_from(reply)
        rule = state.on_answer.pop(xid, None)
        if rule is None:
            connection.out.append(reply)
        elif rule.effect == "error":
            connection.out.append(_REPLY_HEAD.pack(_REPLY_HEAD.size - 4, xid, zxid, ZOOKEEPER_ERRORS[rule.error]))
        elif rule.effect == "delay_after":
            state.held_answers = [reply]
            asyncio.get_running_loop().call_later(rule.delay_ms / 1000, self._send_held, connection)
        else:
            state.is_silent = True
            connection.out += [reply[: len(reply) // 2]] if rule.effect == "truncate" else []
            connection.close()
            return False
        return True

    def _send_held(self, connection: FaultedConnection) -> None:
        """Send a delayed reply, then apply the faults to the replies that waited for it, and send them."""
        state = connection.fault_state
        if state is None or not state.held_answers:
            return
        first, *later = state.held_answers
        state.held_answers = None
        connection.out.append(first)
        if later:
            self.answered(connection, b"".join(later))
        connection.flush()


def _harmless(xid: int) -> bytes:
    """Return a request that changes nothing and whose reply arrives in order."""
    return Request(xid, OpCode.EXISTS, PathWatchRequest("/", False)).encode()
