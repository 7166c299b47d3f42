"""The cause of a silence: a stopped process or a cut link.

A silence expires a session, removes a follower from an ISR, or removes a member from a consumer group.

The node that decides knows only that nothing arrived. Other journals contain the reason: a stopped process sends
nothing, and nothing arrives over a cut link. The stop or the cut is the cause only if it was active at the decision and
began at about the time of the last message. A silence that began earlier had another reason.

Two other faults that began at that time are causes too: a request fault on the follower's fetches, and a cut link with
the client whose ZooKeeper session expired.

A process that ended and was started again counts too if no message has arrived since then: a new process does not
continue the session of the old one, and it has to catch up first. A pause of the leader itself counts too: the leader
received nothing during the pause, so all followers seem to lag.
"""

from __future__ import annotations

from typing import NamedTuple

from zabka.journal.cause import session_text
from zabka.journal.events import (
    Entry,
    Event,
    FaultInjected,
    FaultRemoved,
    GroupChanged,
    IsrProposed,
    LinkFaultApplied,
    NodeStarted,
    ProcessChanged,
    RequestFaultApplied,
)
from zabka.journal.events import SessionExpired as Expired

RESTARTS_MAX = 8
"""Maximum number of process ends that are stored per node.

Only ends after which the process was started again are counted.
"""
_STOPS = frozenset({"crash", "power_loss", "pause"})
_STOPPED = frozenset({"down", "paused"})
ANY = "*"
"""Every node, as an end of a cut link."""


class _Silence(NamedTuple):
    """Silence of a node towards another node: its duration before the decision, and the allowed limit.

    A node that waits for each response sends nothing more if a response is lost, so a partition in either direction can
    be the cause.
    """

    node: str
    receiver: str
    lasts_ms: int
    limit_ms: int
    waits_for_answers: bool = False

    def began_with(self, by: Entry, decided: Entry) -> bool:
        """Return whether the silence can have begun with the event `by`.

        This is possible if the event occurred before the last message, or at most two thirds of the limit after it. A
        working node sends something in each third of the limit; the last third allows for clock differences.
        """
        return by.wall_us <= decided.wall_us - 1000 * (self.lasts_ms - self.limit_ms * 2 // 3)

    def outlived(self, by: Entry, decided: Entry) -> bool:
        """Return whether messages still arrived long after the event `by`.

        In this case, the event is not the only cause of the silence.
        """
        return by.wall_us < decided.wall_us - 1000 * (self.lasts_ms + self.limit_ms // 3)

    def may_be_of(self, cut: Event) -> bool:
        """Return whether the link fault `cut` can stop messages from the silent node to the other node.

        A `*` in the fault stands for every node.
        """
        if not isinstance(cut, FaultInjected):
            return False
        if cut.source in (self.node, ANY) and cut.target in (self.receiver, ANY):
            return True
        returns = cut.source in (self.receiver, ANY) and cut.target in (self.node, ANY)
        return returns and (cut.both_ways or self.waits_for_answers)


class Silences:
    """Tracks stopped processes, cut links, and their effects. Pass it every entry, in order."""

    def __init__(self) -> None:
        self._owners: dict[int, str] = {}
        self._stopped: dict[str, Entry] = {}
        self._restarted: dict[str, list[Entry]] = {}
        """For each node, the last few entries about an end of its process that was followed by a restart."""
        self._resumed: dict[str, Entry] = {}
        """For each node, its latest pause that ended because the node was resumed."""
        self._cuts: dict[str, Entry] = {}
        self._faulted: dict[tuple[str, str, str], Entry] = {}
        """First use of each request fault or client link fault, by fault id, client, and the node that applied the
        fault.
        """
        self._causes: dict[tuple[str, int], Entry] = {}

    def owns(self, session_id: int, node: str) -> None:
        """Record that the node owns this session."""
        self._owners[session_id] = node

    def see(self, entry: Entry) -> None:
        """Add the next entry of the history."""
        match entry.event:
            case ProcessChanged(target=node, process=process) if process in _STOPPED:
                self._stopped.setdefault(node, entry)
            case ProcessChanged(target=node):
                self._runs(node)
            case NodeStarted(role="host"):
                # The agent of a host has restarted, so the link faults that it applied have ended.
                self._cuts = {fault: by for fault, by in self._cuts.items() if by.node != entry.node}
            case NodeStarted():
                self._runs(entry.node)
            case FaultInjected(kind=kind, target=node) if kind in _STOPS:
                self._stopped.setdefault(node, entry)
            case FaultInjected(kind="cut", fault_id=fault_id):
                self._cuts[fault_id] = entry
            case LinkFaultApplied(kind="cut", fault_id=fault_id, client=client):
                self._faulted.setdefault((fault_id, client, entry.node), entry)
            case RequestFaultApplied(fault_id=fault_id, client=client):
                self._faulted.setdefault((fault_id, client, entry.node), entry)
            case FaultRemoved(fault_id=fault_id):
                self._cuts.pop(fault_id, None)
                self._faulted = {key: by for key, by in self._faulted.items() if key[0] != fault_id}
                ended = {node: by for node, by in self._stopped.items() if _fault_of(by.event) == fault_id}
                self._resumed |= {node: by for node, by in ended.items() if not _is_process_end(by.event)}
                self._stopped = {node: by for node, by in self._stopped.items() if node not in ended}
            case Expired() | IsrProposed() | GroupChanged():
                found = [self._silenced(entry, silence) for silence in self._silences(entry.event)]
                found_causes = {(by.node, by.node_seq): by for by in found if by is not None}
                # If several replicas leave the ISR at the same time, one event must explain all of them.
                if len(found_causes) == 1 and None not in found:
                    self._causes[entry.node, entry.node_seq] = next(iter(found_causes.values()))

    def _runs(self, node: str) -> None:
        """Record that the process of a node is running again."""
        ended = self._stopped.pop(node, None)
        if ended is not None and _is_process_end(ended.event):
            self._restarted[node] = [*self._restarted.get(node, ())[1 - RESTARTS_MAX :], ended]
        elif ended is not None:
            self._resumed[node] = ended

    def find_cause(self, effect: Entry) -> Entry | None:
        """Return the cause of the silence that led to this event, or None if the journals do not show it clearly."""
        return self._causes.get((effect.node, effect.node_seq))

    def _silences(self, event: Event) -> list[_Silence]:
        if isinstance(event, IsrProposed):
            leader = f"broker-{event.broker_id}"
            return [
                _Silence(f"broker-{each.replica}", leader, each.caught_up_ms_ago, each.lag_time_max_ms, True)
                for each in event.moved
                if each.replica not in event.isr and each.caught_up_ms_ago >= 0
            ]
        if isinstance(event, GroupChanged):
            coordinator, timeout_ms = f"broker-{event.broker_id}", event.timeout_ms
            # Only the end of a member's session has a timeout. A member waits for the response to its heartbeat.
            return [_Silence(event.client_id, coordinator, timeout_ms, timeout_ms, True)] if timeout_ms else []
        if not isinstance(event, Expired):
            return []
        owner = self._owners.get(event.session_id) or session_text(event.session_id)
        # A new leader does not know when the last message arrived. The silence lasted at least as long as the session
        # timeout.
        lasts_ms = event.heard_ms_ago if event.heard_ms_ago >= 0 else event.timeout_ms
        return [_Silence(owner, f"peer-{event.heard_by}", lasts_ms, event.timeout_ms)]

    def _silenced(self, decided: Entry, silence: _Silence) -> Entry | None:
        held = [by for node, by in self._stopped.items() if node == silence.node]
        held += [by for by in self._cuts.values() if silence.may_be_of(by.event)]
        held += [by for by in self._restarted.get(silence.node, ()) if not silence.outlived(by, decided)]
        paused = self._resumed.get(silence.receiver)
        if paused is not None and silence.waits_for_answers and not silence.outlived(paused, decided):
            held.append(paused)
        # A request fault may have ended earlier, after its configured number of uses, so it is a cause only if it began
        # when the silence began.
        uses = [by for (_, client, at), by in self._faulted.items() if (client, at) == (silence.node, silence.receiver)]
        held += [by for by in uses if not silence.outlived(by, decided)]
        held = [by for by in held if silence.began_with(by, decided)]
        # Prefer the first event close to the last message. If there is none, use the latest event before that message.
        timely = [by for by in held if not silence.outlived(by, decided)]
        at = (lambda by: by.wall_us) if timely else (lambda by: -by.wall_us)
        return min(timely or held, key=at, default=None)


def _is_process_end(event: Event) -> bool:
    if isinstance(event, ProcessChanged):
        return event.process == "down"
    return isinstance(event, FaultInjected) and event.kind != "pause"


def _fault_of(event: Event) -> str | None:
    return event.fault_id if isinstance(event, FaultInjected) else None
