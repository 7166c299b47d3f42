"""Randomly chosen request faults: an error, a lost, late or damaged response, or a closed connection.

Each fault is a rule (`zabka.ensemble.request_fault`) for one API or operation. A rule applies to requests of clients to
brokers, to requests between brokers, or to requests of any client of the ensemble, including brokers. Only retriable
errors are injected, because any other error correctly ends the workload.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from zabka.ensemble.request_fault import ANY, RequestFault
from zabka.simulation.faults.nemesis import Action, Nemesis

BROKERS = "broker-*"
"""Pattern of the client ids of brokers."""
LATE_MS = (20, 200, 1_000, 3_000)
"""Possible delays in ms. The longest is above the brokers' request timeouts."""
USES_MAX = 4
SHARE = 0.3
"""Probability that a rule affects a request, for rules without a fixed number of requests."""

_MOVED = ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION")
_COORDINATOR = ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
ERRORS: dict[str, tuple[str, ...]] = {
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"),
    "Fetch": _MOVED,
    "ListOffsets": _MOVED,
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "JoinGroup": _COORDINATOR,
    "SyncGroup": (*_COORDINATOR, "REBALANCE_IN_PROGRESS"),
    "Heartbeat": (*_COORDINATOR, "REBALANCE_IN_PROGRESS"),
    "OffsetCommit": _COORDINATOR,
    "OffsetFetch": _COORDINATOR,
    "InitProducerId": _COORDINATOR,
}
"""Errors that request faults can return to clients of brokers, keyed by API."""
OF_CLIENTS = (*ERRORS, "Metadata", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit")
OF_BROKERS = (
    "Fetch", "OffsetForLeaderEpoch", "AlterPartition", "LeaderAndIsr", "UpdateMetadata", "StopReplica",
    "ControlledShutdown", "WriteTxnMarkers",
)  # fmt: skip
OPERATIONS = ("create", "delete", "setData", "getData", "getChildren", "exists", "multi", "sync", ANY)
SILENT = ("drop_response", "close", "truncate", "drop_request", "delay_before", "delay_after", "hang")
"""Effects other than an error response that are possible for every API of brokers."""
OF_PEERS = tuple(effect for effect in SILENT if effect != "drop_request")
"""Effects, apart from an error response, that a fault can have on ZooKeeper requests.

`drop_request` is excluded: a peer replies in order, so it cannot skip a request.
"""


def _pick(nemesis: Nemesis, names: tuple[str, ...]) -> str:
    return nemesis.pick(list(names))


def _times(nemesis: Nemesis) -> dict[str, Any]:
    """Draw how often a rule is applied: to each of the next few requests, or to any request with probability SHARE."""
    if nemesis.random.random() < 0.5:
        return {"times": nemesis.random.randrange(1, USES_MAX + 1)}
    return {"probability": SHARE}


def _delay(nemesis: Nemesis, effect: str) -> dict[str, Any]:
    if not effect.startswith("delay"):
        return {}
    return {"delay_ms": LATE_MS[nemesis.random.randrange(0, len(LATE_MS))]}


def _add(nemesis: Nemesis, **fields: Any) -> None:
    world = nemesis.world
    fault_id = world.request_fault(RequestFault(**{"kind": "request", **fields, **_times(nemesis)}))
    nemesis.until_healed(partial(world.remove_fault, fault_id))


def refused_request(nemesis: Nemesis) -> None:
    """Make a broker return an error to a client."""
    api = _pick(nemesis, tuple(ERRORS))
    _add(nemesis, api=api, effect="error", error=_pick(nemesis, ERRORS[api]))


def lost_answer(nemesis: Nemesis) -> None:
    """Process clients' requests to brokers without responding.  The connection is closed or stays open."""
    keep_open = nemesis.random.random() < 0.5
    _add(nemesis, api=_pick(nemesis, OF_CLIENTS), effect="drop_response", keep_open=keep_open)


def client_request(nemesis: Nemesis) -> None:
    """Lose, delay or truncate clients' requests or the responses, or close the clients' connections."""
    effect = _pick(nemesis, SILENT)
    _add(nemesis, api=_pick(nemesis, OF_CLIENTS), effect=effect, **_delay(nemesis, effect))


def stale_metadata(nemesis: Nemesis) -> None:
    """Make one broker answer clients' Metadata requests with the current leaders, even after these leaders change."""
    _add(nemesis, api="Metadata", effect="stale", node=nemesis.pick(nemesis.world.broker_names()))


def corrupt_batch(nemesis: Nemesis) -> None:
    """Damage record batches in Produce requests to a leader, or in Fetch responses to a follower."""
    if nemesis.random.random() < 0.5:
        _add(nemesis, api="Produce", effect="corrupt")
    else:
        _add(nemesis, api="Fetch", effect="corrupt", client_id=BROKERS)


def broker_request(nemesis: Nemesis) -> None:
    """Lose, delay or truncate requests between brokers or their responses, or close the connections between brokers."""
    effect = _pick(nemesis, SILENT)
    _add(nemesis, api=_pick(nemesis, OF_BROKERS), effect=effect, client_id=BROKERS, **_delay(nemesis, effect))


def ensemble_request(nemesis: Nemesis) -> None:
    """Lose, delay or truncate requests to the ensemble or their responses, or close the sessions' connections."""
    effect = _pick(nemesis, OF_PEERS)
    _add(nemesis, opcode=_pick(nemesis, OPERATIONS), effect=effect, **_delay(nemesis, effect))


REQUEST_FAULTS: dict[str, Action] = {
    "refused_request": refused_request,
    "lost_answer": lost_answer,
    "client_request": client_request,
    "stale_metadata": stale_metadata,
    "corrupt_batch": corrupt_batch,
    "broker_request": broker_request,
    "ensemble_request": ensemble_request,
}
"""Request faults by name.  The order matters: it determines what a seed draws."""
