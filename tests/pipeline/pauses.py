"""Small simulated histories in which only the leader's own journal entries show that it runs."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.journal.events import Event
from zabka.journal.writer import encode_line


def paused_twice_and_a_third_time() -> list[bytes]:
    """Return a history in which broker 1 leads from second 1 to 36 and is paused three times.

    The pauses at seconds 10 and 20 take 3 s each. The pause at second 31 does not end.
    """
    leads = e.LeaderElected("t", 0, 1, 0, [1, 2], [1, 2], 0, 1, False, "new_topic", 2)
    events: list[tuple[str, int, Event]] = [("broker-1", 1, leads)]
    for second in (10, 20):
        events.append(("world", second, e.FaultInjected(f"f{second}", "pause", "broker-1", "broker-1", False)))
        events.append(("broker-2", second + 1, _event(2)))
        events += [("broker-1", second + 3, _event(1)), ("broker-1", second + 4, _event(1))]
    events.append(("world", 31, e.FaultInjected("f31", "pause", "broker-1", "broker-1", False)))
    events.append(("world", 36, e.FaultInjected("f36", "cut", "broker-1", "broker-2", True)))
    return [encode_line(node, n, at * 10**6, at * 10**6, event) for n, (node, at, event) in enumerate(events, 1)]


def paused_and_then_stopped() -> list[bytes]:
    """Return a history in which broker 1 leads from second 1 to 36.

    The broker is paused at second 10. Its next journal entry, at second 13, is a request to stop.
    """
    pause = e.FaultInjected("f10", "pause", "broker-1", "broker-1", False)
    events: list[tuple[str, int, Event]] = [
        ("broker-1", 1, e.LeaderElected("t", 0, 1, 0, [1, 2], [1, 2], 0, 1, False, "new_topic", 2)),
        ("world", 10, pause),
        ("broker-1", 13, e.NodeStopped("shutdown")),
        ("world", 36, e.FaultInjected("f36", "cut", "broker-1", "broker-2", True)),
    ]
    return [encode_line(node, n, at * 10**6, at * 10**6, event) for n, (node, at, event) in enumerate(events, 1)]


def ended_unseen() -> list[bytes]:
    """Return a history in which broker 1 leads from second 1 to 36, and exits twice without a report.

    It journals other events in seconds 5 and 6, and starts again in seconds 20 and 30.
    """
    start = e.NodeStarted("broker", 1, {})
    events: list[tuple[str, int, Event]] = [
        ("broker-1", 1, e.LeaderElected("t", 0, 1, 0, [1, 2], [1, 2], 0, 1, False, "new_topic", 2)),
        ("broker-1", 5, _event(1)), ("broker-1", 6, _event(1)), ("broker-2", 7, _event(1)), ("broker-1", 20, start),
        ("broker-1", 28, _event(1)), ("broker-1", 30, start), ("world", 36, _event(1)),
    ]  # fmt: skip
    return [encode_line(node, n, at * 10**6, at * 10**6, event) for n, (node, at, event) in enumerate(events, 1)]


def _event(broker: int) -> Event:
    """Return an event that has no effect on any table."""
    return e.RequestFenced(broker, "fetch", 3, "FENCED_LEADER_EPOCH", 1, 2)
