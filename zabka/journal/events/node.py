"""Events of any node: its start and end, its process, the faults that affect it, and internal errors."""

from __future__ import annotations

from zabka.journal.event import Event


class NodeStarted(Event):
    """A peer, a broker or a service started; `config` contains its effective configuration."""

    role: str
    id: int
    config: dict[str, str]


class NodeStopped(Event):
    """A node is about to exit. `reason` is "shutdown" if a shutdown was requested."""

    reason: str


class TaskFailed(Event):
    """A background task of a node failed for the given reason. The node starts the task again."""

    task: str
    reason: str


class ProcessChanged(Event):
    """A host agent observed or caused a change of a process. `process` is running, paused or down.

    `requester` is the name of the requester of the action: "page", "fixture", "scenario" with its name, "HTTP client"
    with its address, another name that an HTTP client gives itself, or "shutdown of the host agent". It is empty if the
    agent only observed the change, for the start of a host, and in journals of older versions.
    """

    target: str
    process: str
    pid: int | None
    action: str
    requester: str = ""


class FaultInjected(Event):
    """A fault is active from now on. `kind` is the kind of fault.

    It can be a fault of a link: partitioned, delayed or limited, as in `bandwidth 9000 bytes/s`. In simulated runs it
    can be crash, power_loss, pause, slow_disk, or a disk fault: fsync_fails, fsync_stalls, disk_full, bit_flipped,
    log_dir_fails, log_dir_full, disk_replaced. In scripts it can be hold, drop, delay or reorder with a message's type,
    as in `hold PROPOSAL`. The kind `request` is a rule for requests: `source` describes it, and `target` is the node
    that applies it (* means all nodes).

    An end of a link can be a client, such as client:shop-*. `requester` is the name of the requester, as in
    `process_changed`; for faults of the simulated world it is "seed", "fixture" or "scenario" with its name. It is
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
    """A link fault began to affect the connection of a client to this node.

    `client` is the client id, the ZooKeeper session, or the address, and `address` the address of the connection. The
    node writes one event per fault and client, although the fault also affects later connections of that client.
    """

    fault_id: str
    kind: str
    client: str
    address: str
    caused_by: str = ""


class RequestFaultApplied(Event):
    """A node applied a request fault to a request. `effect` is what the fault did.

    `request` is the Kafka API or ZooKeeper operation, `client` the client id or the client's address, and `subject` the
    partition, group, transactional id or path. `use` is the number of requests to which this node has applied the
    fault.
    """

    fault_id: str
    request: str
    client: str
    subject: str
    effect: str
    use: int
    caused_by: str = ""


class PeerProtocolBroken(Event):
    """The other side of a connection violated the protocol, and the node closed the connection.

    `count` is the number of violations since the previous event of this type. Only the last violation is described.
    """

    remote: str
    reason: str
    count: int = 1


class InvariantViolated(Event):
    """An invariant is violated at this point of the history."""

    invariant: str
    detail: str
