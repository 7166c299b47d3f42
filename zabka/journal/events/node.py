"""The events of any node: its start and end, its process, the faults that affect it, and internal errors."""

from __future__ import annotations

from zabka.journal.event import Event


class NodeStarted(Event):
    """A peer, a broker or a service started; `config` contains its effective configuration."""

    role: str
    id: int
    config: dict[str, str]


class NodeStopped(Event):
    """A node stops by itself; `reason` is "shutdown" if a shutdown was requested."""

    reason: str


class TaskFailed(Event):
    """A background task of a node failed for the given reason; the node starts it again."""

    task: str
    reason: str


class ProcessChanged(Event):
    """The host agent observed or caused a change of a process; `process` is running, paused or down.

    `requester` requested the action: "page", "fixture", "scenario" with its name, "HTTP client" with its address, or
    another name that an HTTP client gives itself, or "shutdown of the host agent". It is empty if the change was only
    observed, for the start of a host, and in journals of older versions.
    """

    target: str
    process: str
    pid: int | None
    action: str
    requester: str = ""


class FaultInjected(Event):
    """A fault is active from now on.

    The fault is a link that is partitioned, delayed or limited, as in `bandwidth 9000 bytes/s`, or (simulated) crash,
    power_loss, pause, slow_disk, or a disk fault: fsync_fails, fsync_stalls, disk_full, bit_flipped, log_dir_fails,
    log_dir_full, disk_replaced. In scripts it can name a message: hold, drop, delay or reorder, and the message's type,
    as in `hold PROPOSAL`. The kind `request` is a rule for requests: `source` describes it, and `target` is the node
    that applies it, or * for all. An end of a link can be a client, such as client:shop-*. `requester` requested it, as
    in `process_changed`; for faults of the simulated world it is "seed", "fixture" or "scenario" with its name. It is
    empty in journals of older versions.
    """

    fault_id: str
    kind: str
    source: str
    target: str
    both_ways: bool
    delay_ms: int = 0
    requester: str = ""


class FaultRemoved(Event):
    """The fault with that id was removed."""

    fault_id: str


class LinkFaultApplied(Event):
    """A fault of clients' links began to affect a client's connection to this node.

    `client` is the client id, the ZooKeeper session, or the address, and `address` the address of the connection. A
    fault is journalled once for each client of a node, although it affects later connections too.
    """

    fault_id: str
    kind: str
    client: str
    address: str
    caused_by: str = ""


class RequestFaultApplied(Event):
    """A node applied a request fault, which had that effect on the request.

    `request` is the Kafka API or ZooKeeper operation, `client` the client id or the client's address, and `subject` the
    partition, group, transactional id or path. `use` counts the uses of the fault at this node, from 1.
    """

    fault_id: str
    request: str
    client: str
    subject: str
    effect: str
    use: int
    caused_by: str = ""


class PeerProtocolBroken(Event):
    """The other side of a connection violated the protocol and was disconnected.

    The event describes only the last of `count` violations since the previous event of this type.
    """

    remote: str
    reason: str
    count: int = 1


class InvariantViolated(Event):
    """An invariant is violated at this point of the history."""

    invariant: str
    detail: str
