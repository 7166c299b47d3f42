"""Controller terms in the folded state, and the events that end them."""

from __future__ import annotations

from zabka.journal import events as e
from zabka.journal.events import Entry, Event
from zabka.journal.fold import fold


def as_entries(*events: Event) -> list[Entry]:
    return [
        Entry("host-1" if isinstance(event, e.ProcessChanged) else "broker-1", at, at * 1_000_000, 0, event)
        for at, event in enumerate(events, start=1)
    ]


def test_controller_term_ends_with_its_session_despite_a_restart() -> None:
    history = as_entries(
        e.BrokerRegistered(1, 10, 7),
        e.ControllerElected(1, 1, 1, 11),
        e.NodeStarted("broker", 1, {}),
        e.SessionClosed(7, 12, ["/brokers/ids/1", "/controller"]),
        e.ControllerElected(2, 2, 2, 13),
    )
    first, second = fold(history).controller_terms
    assert (first.ended_by, first.until_us) == ("session_closed", 4_000_000)
    assert second.until_us is None


def _process(process: str, action: str) -> e.ProcessChanged:
    return e.ProcessChanged("broker-1", process, None if process == "down" else 1, action)


def test_new_process_does_not_resume_a_dead_controllers_term() -> None:
    """A new process of a dead controller is not shown as the active controller.

    Before the fix, it was shown as active if the controller was killed, started, paused and resumed within its session
    timeout.
    """
    history = as_entries(
        e.BrokerRegistered(1, 10, 7),
        e.ControllerElected(1, 1, 1, 11),
        _process("down", "kill"),
        _process("running", "start"),
        _process("paused", "pause"),
        _process("running", "resume"),
    )
    [term] = fold(history).controller_terms
    assert (term.holder_lost_by, term.holder_lost_us, term.until_us) == ("kill", 3_000_000, None)


def test_controller_killed_while_paused_counts_as_killed() -> None:
    history = as_entries(
        e.BrokerRegistered(1, 10, 7),
        e.ControllerElected(1, 1, 1, 11),
        _process("paused", "pause"),
        _process("down", "kill"),
    )
    [term] = fold(history).controller_terms
    assert (term.holder_lost_by, term.holder_lost_us) == ("kill", 3_000_000)


def test_restarted_broker_is_not_shown_as_the_old_controller() -> None:
    """A restarted process is not shown as the controller that was elected before.

    The host's agent died too, so the exit was not journaled. Before the fix, the dead controller was shown as active
    until its session expired.
    """
    history = as_entries(e.BrokerRegistered(1, 10, 7), e.ControllerElected(1, 1, 1, 11), e.NodeStarted("broker", 1, {}))
    [term] = fold(history).controller_terms
    assert (term.holder_lost_by, term.holder_lost_us, term.until_us) == ("exited", 3_000_000, None)
