"""What is answered of nodes whose host agent is silent: that nothing is known, since when, and what would help.

A frozen or cut-off host may run what it ran, or nothing: its nodes' last words are no word on now.  What the ensemble
says of such a broker (its registration) stands beside that, for it is somebody else's word.
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
    """Why a silent host's nodes are unknown."""
    return Unknown(reason="host_silent", host=silence.host, since_us=silence.since_us, remedy=silence.remedy or None)


def silent_peer(peer_id: int, observer: bool, silence: Silence, taken_us: int, age_ms: int | None) -> Peer:
    """A peer of which nothing is known; `age_ms` is that of its last word."""
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


def silent_broker(told: BrokerView, address: tuple[str, int], silence: Silence, taken_us: int, fresh: Fresh) -> Broker:
    """A broker of which only the ensemble's word is known, and what the journal has counted."""
    registration = fresh.reading.brokers.get(told.id)
    return Broker(
        id=told.id,
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
        fenced_writes=told.fenced_writes,
        fenced_requests=told.fenced_requests,
        as_of_us=taken_us,
        stale=fresh.stale,
        age_ms=fresh.age_ms,
        status={},
    )


def since_text(silence: Silence) -> str:
    """Who has been silent, and since when."""
    since = datetime.fromtimestamp(silence.since_us // 1_000_000, UTC).strftime("%H:%M:%S")
    return f"the host agent {silence.host} ({silence.url}) has not responded since {since} UTC"


def out_of_reach(node: str, silence: Silence) -> Problem:
    """Why nothing can be done to a node of a silent host, and what brings its agent back."""
    text = f"{since_text(silence)}; no action on {node}"
    if silence.remedy:
        text += f"; {silence.remedy}"
    return Problem(503, text, host=silence.host, since_us=silence.since_us)
