"""API responses for nodes whose host agent is silent.

The responses contain the state `unknown`, the time since which the host is silent, and the remedy. The processes of a
frozen or unreachable host may or may not run, so their last statuses are not the current state. A broker's registration
in the ensemble is still reported, because it does not depend on the host.
"""

from __future__ import annotations

from datetime import UTC, datetime

from zabka.api.collector.agents import Silence
from zabka.api.http.problems import Problem
from zabka.api.views.ensemble_view import Fresh
from zabka.api.views.models import Believes, Broker, Peer, Unknown
from zabka.journal.cluster_state import BrokerView

NO_BELIEF = Believes(controller_id=-1, controller_epoch=0, age_ms=None)


def unknown_for(silence: Silence) -> Unknown:
    """Return the reason why the state of a silent host's nodes is unknown."""
    return Unknown(reason="host_silent", host=silence.host, since_us=silence.since_us, remedy=silence.remedy or None)


def silent_peer(peer_id: int, observer: bool, silence: Silence, taken_us: int, age_ms: int | None) -> Peer:
    """Return a peer whose state is unknown. `age_ms` is the age of its last status."""
    return Peer(
        id=peer_id,
        state="UNKNOWN",
        phase="UNKNOWN",
        accepted_epoch=None,
        current_epoch=None,
        last_zxid=None,
        leader_id=None,
        observer=observer,
        process="unknown",
        pid=None,
        unknown=unknown_for(silence),
        as_of_us=taken_us,
        age_ms=age_ms,
    )


def silent_broker(
    journalled: BrokerView, address: tuple[str, int], silence: Silence, taken_us: int, fresh: Fresh
) -> Broker:
    """Return a broker of a silent host, using only data from the ensemble and counts derived from the journal."""
    registration = fresh.reading.brokers.get(journalled.id)
    return Broker(
        id=journalled.id,
        process="unknown",
        pid=None,
        unknown=unknown_for(silence),
        host=address[0],
        port=address[1],
        registered=registration is not None,
        broker_epoch=registration.broker_epoch if registration else None,
        is_controller=None,
        believes=NO_BELIEF,
        session_state="unknown",
        fenced_writes=journalled.fenced_writes,
        fenced_requests=journalled.fenced_requests,
        as_of_us=taken_us,
        stale=fresh.stale,
        age_ms=fresh.age_ms,
        status={},
    )


def since_text(silence: Silence) -> str:
    """Return a message that names the silent host and states since when it has been silent."""
    since = datetime.fromtimestamp(silence.since_us // 1_000_000, UTC).strftime("%H:%M:%S")
    return f"the host agent {silence.host} ({silence.url}) has not responded since {since} UTC"


def out_of_reach(node: str, silence: Silence) -> Problem:
    """Return the error for a requested action on a node of a silent host. It includes the remedy."""
    text = f"{since_text(silence)}; no action on {node}"
    if silence.remedy:
        text += f"; {silence.remedy}"
    return Problem(503, text, host=silence.host, since_us=silence.since_us)
