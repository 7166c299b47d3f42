"""JSON models of the API's requests and responses, with examples.

Field names are part of the API and do not change.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, field_validator, model_validator

from zabka.agent.protocol import NodeAction
from zabka.api.http.struct_schema import OneOfStructs
from zabka.ensemble.request_fault import HeldRequestFault, RequestFault
from zabka.ensemble.runtime.link_fault import HeldFault, LinkFault
from zabka.kafka.wire.primitives import TEXT_BYTES_MAX

ProcessState = Literal["running", "paused", "down"]
NodeProcess = ProcessState | Literal["unknown"]

INT32_MAX = (1 << 31) - 1
_PARTITION_NUMBER = re.compile(r"0|[1-9][0-9]{0,6}")


class Acl(BaseModel):
    """One entry of a znode's ACL."""

    scheme: str
    id: str
    perms: int


class ZnodeStat(BaseModel):
    """A znode's Stat, with ZooKeeper's field names."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: str = Field(description="The session, hexadecimal; 0x0 for a persistent znode")
    data_length: int
    num_children: int
    pzxid: int


class Znode(BaseModel):
    """One znode with its data, Stat, children, ACL and watchers."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "path": "/controller_epoch", "data": "3", "encoding": "utf-8", "children": [],
        "stat": {"czxid": 20, "mzxid": 95, "ctime": 1700000000000, "mtime": 1700000009000, "version": 3, "cversion": 0,
              "aversion": 0, "ephemeral_owner": "0x0", "data_length": 1, "num_children": 0, "pzxid": 20},
        "acl": [{"scheme": "world", "id": "anyone", "perms": 31}], "watchers": ["0x100000a2c3d0001"],
    }})  # fmt: skip

    path: str
    data: str | None
    encoding: Literal["utf-8", "base64"]
    stat: ZnodeStat
    children: list[str]
    acl: list[Acl]
    watchers: list[str] | None = Field(description="Sessions that watch it; null if no peer responds")


def _encodable(value: str) -> str:
    """Reject a string with half a surrogate pair, which JSON can contain but no protocol can encode."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair is not valid text") from None
    # Limit the length: a broker closes the connection of a client that sends a longer string.
    if size > TEXT_BYTES_MAX:
        raise ValueError(f"Kafka's protocol has no text of {size} bytes; at most {TEXT_BYTES_MAX} are taken")
    return value


KEYS_MAX = 1_000
"""Maximum number of keys in a configuration. Kafka itself defines far fewer keys."""
PARTITIONS_MAX = 10_000
MEMBERS_MAX = 100
"""Maximum number of members in the JSON object of a request body. A valid body has far fewer."""


def _at_most(value: Any, count: int, what: str) -> Any:
    """Reject a JSON object with too many members.

    Called before validation, which would report an error for each member.
    """
    if isinstance(value, dict) and len(value) > count:
        raise ValueError(f"there are {len(value)} {what}; at most {count} are taken")
    return value


Text = Annotated[str, AfterValidator(_encodable)]
BrokerId = Annotated[int, Field(ge=-INT32_MAX - 1, le=INT32_MAX)]


def _example(**values: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"example": values})


def _body(**values: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"example": values})


class Body(BaseModel):
    """A JSON request body that rejects unknown members."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_members(cls, value: Any) -> Any:
        return _at_most(value, MEMBERS_MAX, "members")


class Unknown(BaseModel):
    """The state of a node's process is unknown, for the given reason."""

    reason: Literal["host_silent", "not_started_here"] = Field(
        description="`host_silent`: its host agent has not responded for two seconds"
    )
    host: str | None = Field(description="The host that does not respond")
    since_us: int | None = Field(description="Time of the last response from that host, by the API's clock")
    remedy: str | None = Field(default=None, description="How to restart that host's agent")


_UNKNOWN = "Null if its process is known. If set, the other fields hold no earlier values"


class Peer(BaseModel):
    """One server of the ensemble, and its process."""

    model_config = _example(
        id=1, state="LEADING", phase="BROADCAST", accepted_epoch=1, current_epoch=1, last_zxid="0x100000012",
        leader_id=1, observer=False, process="running", pid=4711, unknown=None, as_of_us=1700000000000000, age_ms=180,
    )  # fmt: skip

    id: int
    state: Literal["LEADING", "FOLLOWING", "LOOKING", "OBSERVING", "DOWN", "UNKNOWN"]
    phase: str = Field(
        description="ELECTION, DISCOVERY, SYNCHRONIZATION or BROADCAST; UNKNOWN if its host agent does not respond"
    )
    accepted_epoch: int | None = Field(description="Null if its host agent does not respond; so are the next three")
    current_epoch: int | None
    last_zxid: str | None = Field(description="Hexadecimal, as ZooKeeper prints it; null before the first report")
    leader_id: int | None = Field(description="The leader according to this peer; -1 for none")
    observer: bool
    process: NodeProcess
    pid: int | None
    unknown: Unknown | None = Field(description=_UNKNOWN)
    as_of_us: int = Field(description="Time of this process state, by the clock of its host: later events override it")
    age_ms: int | None = Field(description="Age of this peer's last report")


class Controller(BaseModel):
    """The controller according to ZooKeeper."""

    model_config = _example(
        broker_id=1, controller_epoch=3, zk_version=3, timestamp_ms=1700000000000, stale=False, age_ms=40
    )

    broker_id: int = Field(description="-1 if there is none")
    controller_epoch: int
    zk_version: int = Field(description="The zkVersion of /controller_epoch: the fencing token")
    timestamp_ms: int | None = Field(description="Creation time of /controller, by the clock of its creator")
    stale: bool = Field(description="There is no quorum: this is the last known state")
    age_ms: int


class Believes(BaseModel):
    """The controller according to a broker's last report."""

    controller_id: int
    controller_epoch: int
    age_ms: int | None = Field(description="Age of that report; it grows while the broker is paused or down")


class Broker(BaseModel):
    """One broker, including a broker that was started elsewhere and joined the ensemble."""

    model_config = _example(
        id=1, process="running", pid=4714, unknown=None, host="127.0.0.1", port=9092, registered=True, broker_epoch=25,
        is_controller=True, believes={"controller_id": 1, "controller_epoch": 3, "age_ms": 210},
        session_state="connected", fenced_writes=0, fenced_requests=0,
        as_of_us=1700000000000000, stale=False, age_ms=40, status={},
    )  # fmt: skip

    id: int
    process: NodeProcess = Field(
        description="`unknown` if its host agent does not respond, or if the broker was not started by this cluster"
    )
    pid: int | None
    unknown: Unknown | None = Field(description=_UNKNOWN)
    host: str
    port: int
    external: str = Field(
        default="",
        description="HOST:PORT for clients outside the nodes' network, for example of containers; empty if `host` and "
        "`port` work for all clients",
    )
    registered: bool = Field(description="Whether its ephemeral exists in /brokers/ids, according to ZooKeeper")
    broker_epoch: int | None = Field(description="The czxid of that znode")
    is_controller: bool | None = Field(
        description="According to the broker's last report, right or wrong; according to ZooKeeper for a broker that "
        "this cluster did not start; null if its host agent does not respond",
    )
    believes: Believes
    session_state: str
    fenced_writes: int
    fenced_requests: int
    as_of_us: int = Field(description="Time of this process state, by the clock of its host: later events override it")
    stale: bool = Field(description="`registered` is the last known state, because there is no quorum")
    age_ms: int
    status: dict[str, Any] = Field(description="Status from the broker's control socket; empty while it is down")


class Partition(BaseModel):
    """One partition of a topic."""

    partition: int
    leader: int = Field(description="-1 for none")
    leader_epoch: int
    isr: list[int]
    eligible: list[int] = Field(
        default=[],
        description="Eligible leader replicas: outside the ISR, but with all committed records; one can be elected if "
        "no ISR member can",
    )
    replicas: list[int]
    partition_epoch: int = Field(description="zkVersion of its state znode; -1 before it exists")
    high_watermark: int | None
    log_end_offsets: dict[str, int] = Field(description="Per broker")
    offline: bool
    min_isr: int | None = Field(
        default=None, description="The effective min.insync.replicas, as the leader reports it; null if it does not"
    )
    lagging: list[int] = Field(
        default=[], description="Members of the ISR that the leader has not seen caught up for replica.lag.time.max.ms"
    )
    unwritable: str | None = Field(
        default=None,
        description="Why a write with acks=all is not acknowledged; null if nothing is known to prevent it",
    )
    records_lost: int = Field(
        default=0,
        description="Records removed from a replica, each offset counted once, from the `records_lost` events",
    )
    committed_at_least: int = Field(
        default=0, description="At least this many of them were committed: they lie below a reported high watermark"
    )


class Topic(BaseModel):
    """One topic with its partitions."""

    model_config = _example(
        name="orders", topic_id="3gFxN0DEQ2iZpSkbVjH1Vg", config={"min.insync.replicas": "2"}, deleting=False,
        partitions=[{
            "partition": 0, "leader": 1, "leader_epoch": 0, "isr": [1, 2, 3], "replicas": [1, 2, 3],
            "partition_epoch": 0, "high_watermark": 120, "log_end_offsets": {"1": 121, "2": 120, "3": 121},
            "offline": False, "min_isr": 2, "lagging": [], "unwritable": None, "records_lost": 0,
            "committed_at_least": 0,
        }],
        stale=False, age_ms=40,
    )  # fmt: skip

    name: str
    topic_id: str
    config: dict[str, str]
    partitions: list[Partition]
    deleting: bool = Field(description="Marked for deletion")
    stale: bool
    age_ms: int


class NewTopic(Body):
    """A topic to create, either with a number of partitions and replicas or with an assignment."""

    model_config = _example(name="orders", partitions=3, replication_factor=3, config={"min.insync.replicas": "2"})

    name: str = Field(min_length=1, max_length=249)
    partitions: int | None = Field(None, ge=1, le=PARTITIONS_MAX)
    replication_factor: int | None = Field(None, ge=1, le=255)
    assignment: dict[str, list[BrokerId]] | None = Field(
        None, description="Brokers per partition, the preferred leader first"
    )
    config: dict[Text, Text] = {}

    @field_validator("assignment", mode="before")
    @classmethod
    def _few(cls, value: Any) -> Any:
        return _at_most(value, PARTITIONS_MAX, "partitions")

    @field_validator("assignment")
    @classmethod
    def _numbers(cls, value: dict[str, list[int]] | None) -> dict[str, list[int]] | None:
        if value is not None and (not value or not all(_PARTITION_NUMBER.fullmatch(p) for p in value)):
            raise ValueError("an assignment maps partition numbers to brokers")
        return value

    @field_validator("config", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        return as_texts(value)

    @model_validator(mode="after")
    def _one_way(self) -> NewTopic:
        if self.assignment is not None and (self.partitions or self.replication_factor):
            raise ValueError("give partitions and replication_factor, or an assignment, not both")
        return self


def as_texts(value: Any) -> Any:
    """Return configuration values as strings, as in Kafka. `true` and 2 can be given as JSON values.

    Raises ValueError for more than KEYS_MAX values.
    """
    _at_most(value, KEYS_MAX, "keys")
    if not isinstance(value, dict):
        return value
    return {
        k: str(v).lower() if isinstance(v, bool) else str(v) if isinstance(v, int | float) else v
        for k, v in value.items()
    }


class PartitionName(BaseModel):
    """Identifies a partition by topic name and partition number."""

    model_config = _body(topic="orders", partition=0)

    topic: Text
    partition: int = Field(ge=0, le=INT32_MAX)


class NewElection(Body):
    """Request for leader elections, for all partitions if `partitions` is missing."""

    model_config = _example(type="PREFERRED", partitions=[{"topic": "orders", "partition": 0}])

    type: Literal["PREFERRED", "UNCLEAN"]
    partitions: list[PartitionName] | None = Field(None, fail_fast=True)


class ElectionResult(BaseModel):
    """Result of one partition's election."""

    model_config = _example(topic="orders", partition=0, elected=False, error="ELECTION_NOT_NEEDED", message="…")

    topic: str
    partition: int
    elected: bool
    error: str | None = Field(description="Kafka's error name; null if the leader was elected")
    message: str | None


WorkloadKind = Literal["producer", "consumer", "transactional-producer", "read-process-write"]


class NewWorkload(Body):
    """A workload that the API process runs.

    A producer checks that its acknowledged records can be read. A consumer is a member of a group. A transactional
    producer writes one transaction after another. A read-process-write loop copies committed records to another topic
    exactly once.
    """

    model_config = _example(topic="orders", acks="all", records_per_s=50)

    topic: str = Field(min_length=1, max_length=249)
    kind: WorkloadKind = "producer"
    acks: Literal["all", "1", "0", "-1"] = Field("all", description="Producers only; transactions need all")
    records_per_s: float = Field(50, gt=0, le=100_000, description="Producers and transactional producers only")
    group: str | None = Field(
        None,
        min_length=1,
        max_length=249,
        pattern=r"^[a-zA-Z0-9._-]+$",
        description="Consumers and loops only, required",
    )
    output: str | None = Field(
        None, min_length=1, max_length=249, description="Loops only, required: the topic that they write to"
    )
    transactional_id: str | None = Field(
        None, min_length=1, max_length=249, description="Transactional producers and loops only; default: the new id"
    )
    abort_every: int = Field(
        0, ge=0, le=1_000_000, description="Transactional producers only: every so many transactions is aborted"
    )
    offsets: Literal["kafka", "zookeeper"] = Field(
        "kafka",
        description="Consumers only: keep offsets and members at the group coordinator, or in ZooKeeper as before 0.9",
    )

    @model_validator(mode="after")
    def _group_fits(self) -> NewWorkload:
        if (self.kind in ("consumer", "read-process-write")) != (self.group is not None):
            raise ValueError("a consumer and a loop need a group, and a producer has none")
        if (self.kind == "read-process-write") != (self.output is not None):
            raise ValueError("a loop needs an output topic, and other workloads have none")
        if self.kind in ("producer", "consumer") and self.transactional_id is not None:
            raise ValueError(f"a {self.kind} has no transactional id")
        if self.kind == "transactional-producer" and self.acks not in ("all", "-1"):
            raise ValueError("a transactional producer needs acks=all")
        if self.offsets == "zookeeper" and self.kind == "read-process-write":
            raise ValueError("a loop commits its offsets in transactions, which ZooKeeper does not have")
        if self.offsets == "zookeeper" and self.group in (".", ".."):
            raise ValueError(f"this is not a valid znode name: {self.group}")
        return self

    @field_validator("acks", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Workload(BaseModel):
    """A workload, with counts such as the records that it has sent or read."""

    model_config = _example(
        id="w1", kind="producer", topic="orders", acks="all", records_per_s=50, sent=500, acknowledged=498, failed=0,
        lost=0, state="running", verified=True, last_error=None, group=None, offsets=None, consumed=0, duplicates=0,
        out_of_order=0, lag=0, partitions=[], transactional_id=None, output=None, committed=0, aborted=0, unknown=0,
    )  # fmt: skip

    id: str
    kind: WorkloadKind = "producer"
    topic: str
    acks: str = Field(default="", description="Producers only, like the fields up to `verified`")
    records_per_s: float = 0
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    lost: int = Field(default=0, description="Acknowledged records that are not in the logs of the current leaders")
    state: Literal["running", "ended"]
    verified: bool = Field(default=True, description="Whether every acknowledged record was read back")
    last_error: str | None
    group: str | None = Field(default=None, description="Consumers and loops only, like the fields up to `partitions`")
    offsets: Literal["kafka", "zookeeper"] | None = None
    consumed: int = Field(default=0, description="Records that the group had not read before")
    duplicates: int = Field(default=0, description="Records that the group had already read")
    out_of_order: int = Field(default=0, description="Records read after a later record")
    lag: int = Field(default=0, description="Records below the high watermarks of its partitions that are not read yet")
    partitions: list[int] = Field(default=[], description="Currently assigned partitions")
    transactional_id: str | None = Field(
        default=None, description="Transactional producers and loops only, like the fields below"
    )
    output: str | None = Field(default=None, description="The topic that a loop writes to")
    committed: int = Field(default=0, description="Transactions whose commit was acknowledged")
    aborted: int = Field(default=0, description="Transactions that were aborted")
    unknown: int = Field(default=0, description="Transactions whose commit was not acknowledged")


class CountedRequestFault(HeldRequestFault, frozen=True, kw_only=True):
    """An active request fault.

    It has a description `text`, and the numbers of matching requests and of injected faults, in total and by node.
    """

    text: str
    matched: int
    used: int
    used_by: dict[str, int]


class NewFault(
    RootModel[Annotated[LinkFault | RequestFault, OneOfStructs(LinkFault, RequestFault, "kind", "request")]]
):
    """A fault to add to a link between two nodes, to a link between a client and a node, or to client requests.

    A fault of client requests has the kind `request`.
    """

    model_config = _example(**{"from": "broker-1", "to": "peer-2", "kind": "cut", "both_ways": True})


class NewSplit(Body):
    """A split of the network: every link between nodes of different sides is cut, both ways."""

    model_config = _example(sides=[["broker-1", "broker-2"], ["broker-3"]])

    sides: list[list[str]] = Field(
        min_length=2, max_length=MEMBERS_MAX, description="Disjoint sets of nodes; links within a set are not cut"
    )


class FaultView(
    RootModel[
        Annotated[HeldFault | CountedRequestFault, OneOfStructs(HeldFault, CountedRequestFault, "kind", "request")]
    ]
):
    """An active link fault or request fault."""

    model_config = _example(
        **{
            "id": "f1",
            "from": "broker-1",
            "to": "peer-2",
            "kind": "cut",
            "delay_ms": 0,
            "both_ways": True,
            "requester": "page",
        }
    )


class ReadySetView(BaseModel):
    """A predefined set of request faults.

    It contains a description of the outage that the set imitates, the expected behaviour of clients, and the rules.
    """

    model_config = _example(
        name="ack-lost", imitates="The leader stores the records, and the connection breaks.",
        expected="The producer sends the records again.", takes=["node", "topic"],
        rules=[{"kind": "request", "api": "Produce", "effect": "drop_response", "times": 1}],
    )  # fmt: skip

    name: str
    imitates: str
    expected: str
    takes: list[str] = Field(description="The fields that narrow it")
    rules: list[dict[str, Any]]


class OpenTransaction(BaseModel):
    """An open transaction, as its coordinator last reported it."""

    transactional_id: str
    state: str = Field(description="Named as in Kafka's tools: Ongoing, PrepareCommit or PrepareAbort")
    coordinator: int = Field(description="The broker that reported it last")
    coordinator_process: NodeProcess
    producer_id: int
    producer_epoch: int
    client_id: str | None = Field(
        description="Client id of the producer; null if it sent nothing to this coordinator yet"
    )
    partitions: list[str] = Field(description="Partitions that still need a marker")
    started_ms: int | None = Field(description="Its start by the coordinator's clock; null if unknown")
    age_ms: int | None
    timeout_ms: int | None = Field(description="The producer's transaction.timeout.ms; null if unknown")
    stale: bool = Field(description="The coordinator's process does not run, or its state is unknown")
    reported_ms_ago: int = Field(description="Age of the coordinator's last report about this transaction")


class HeldOffset(BaseModel):
    """A partition where read_committed consumers wait for an open transaction."""

    topic: str
    partition: int
    leader: int = Field(description="The broker that reported it")
    last_stable_offset: int
    high_watermark: int
    producer_id: int
    producer_epoch: int
    transactional_id: str | None = Field(
        description="Id of the open transaction; null if no coordinator has reported one, so that the transaction hangs"
    )
    held_ms: int = Field(description="Time since the leader found it")
    stale: bool = Field(description="The leader's process does not run, or its state is unknown")


class Transactions(BaseModel):
    """The open transactions, and the partitions whose readers wait for them."""

    model_config = _example(
        open=[{
            "transactional_id": "payments", "state": "Ongoing", "coordinator": 2, "coordinator_process": "running",
            "producer_id": 4000, "producer_epoch": 3, "client_id": "shop-1", "partitions": ["orders-0"],
            "started_ms": 1700000000000, "age_ms": 31000, "timeout_ms": 60000, "stale": False,
            "reported_ms_ago": 30900,
        }],
        held=[{
            "topic": "orders", "partition": 0, "leader": 1, "last_stable_offset": 12, "high_watermark": 20,
            "producer_id": 4000, "producer_epoch": 3, "transactional_id": "payments", "held_ms": 30500, "stale": False,
        }],
    )  # fmt: skip

    open: list[OpenTransaction]
    held: list[HeldOffset] = Field(description="Reported once a transaction has held an offset for ten seconds")


class Group(BaseModel):
    """A consumer group, as its coordinator describes it."""

    model_config = _example(
        id="readers", state="Stable", unknown=None, last_state=None, age_ms=400, coordinator=2,
        protocol_type="consumer", protocol="range", generation=3, member_count=2, partition_count=3,
        lag=14,
    )  # fmt: skip

    id: str
    state: str = Field(
        description="Named as in Kafka's tools: Stable, PreparingRebalance, CompletingRebalance or Empty; `Unknown` if "
        "its coordinator does not answer"
    )
    unknown: str | None = Field(
        description="Why its coordinator did not answer; null if it did. If set, fields after `coordinator` are null"
    )
    last_state: str | None = Field(description="The last known state of an unknown group; null if the state is known")
    age_ms: int | None = Field(
        description="Age of the coordinator's last answer; null if it has not answered since the API started"
    )
    coordinator: int | None = Field(description="The broker that coordinates it, or the last known one if unknown")
    protocol_type: str | None = Field(description="`consumer`, or for example `connect`; null before the first member")
    protocol: str | None = Field(description="The assignment strategy; null unless the group is stable")
    generation: int | None = Field(
        description="Number of its rebalances, from the coordinator's journal; null if the coordinator writes none"
    )
    member_count: int | None
    partition_count: int | None = Field(description="Partitions that are assigned or have a committed offset")
    lag: int | None = Field(
        description="Records after its committed offsets, over all partitions; null if an end offset is unknown"
    )


class GroupMember(BaseModel):
    """A member of a consumer group."""

    member_id: str
    group_instance_id: str | None = Field(description="Its group.instance.id; null for a dynamic member")
    client_id: str
    client_host: str
    partitions: list[str] = Field(description="The partitions assigned to it; empty during a rebalance")


class GroupOffset(BaseModel):
    """Position of a consumer group in a partition."""

    topic: str
    partition: int
    committed: int | None = Field(description="The committed offset; null if the group has none")
    end: int | None = Field(description="The log's end offset for consumers; null if unknown")
    lag: int | None = Field(description="Records after the committed offset; null if one of the two is unknown")
    unknown: str | None = Field(description="Why the end offset is unknown; null if it is known")
    member_id: str | None = Field(description="The member with this partition; null if none has it")


class GroupDetails(Group):
    """A consumer group with its members and offsets."""

    model_config = _example(
        id="readers", state="Stable", unknown=None, last_state=None, age_ms=400, coordinator=2,
        protocol_type="consumer", protocol="range", generation=3, member_count=1, partition_count=1,
        lag=14,
        members=[{
            "member_id": "reader-1-7f3a", "group_instance_id": None, "client_id": "reader-1",
            "client_host": "/127.0.0.1", "partitions": ["orders-0"],
        }],
        offsets=[{
            "topic": "orders", "partition": 0, "committed": 106, "end": 120, "lag": 14, "unknown": None,
            "member_id": "reader-1-7f3a",
        }],
    )  # fmt: skip

    members: list[GroupMember] | None = Field(description="At most 1,000; null if the group is unknown")
    offsets: list[GroupOffset] | None = Field(
        description="The assigned partitions, and those with a committed offset: at most 10,000; null if the group is "
        "unknown"
    )


class SilentBroker(BaseModel):
    """A broker that did not list all groups that it coordinates."""

    broker_id: int
    reason: str


class Groups(BaseModel):
    """The consumer groups, and the brokers that may have more of them."""

    model_config = _example(
        groups=[{
            "id": "readers", "state": "Stable", "unknown": None, "last_state": None, "age_ms": 400, "coordinator": 2,
            "protocol_type": "consumer", "protocol": "range", "generation": 3, "member_count": 2,
            "partition_count": 3, "lag": 14,
        }],
        silent_brokers=[], omitted=0, problem=None,
    )  # fmt: skip

    groups: list[Group]
    silent_brokers: list[SilentBroker] = Field(description="Brokers that may coordinate more groups")
    omitted: int = Field(description="Number of groups left out: at most 500 are included")
    problem: str | None = Field(description="Why no broker answered; null if one did")


class Cluster(BaseModel):
    """The whole cluster in one object, as of event number `seq`."""

    seq: int
    at_us: int
    stale: bool = Field(description="There is no quorum: data from ZooKeeper is the last known state")
    age_ms: int
    read_at_us: int = Field(description="Time at which ZooKeeper was read: later events override it")
    quorum: bool
    zab: dict[str, int]
    peers: list[Peer]
    controller: Controller
    controller_terms: list[dict[str, Any]]
    brokers: list[Broker]
    topics: list[Topic]
    workloads: list[Workload]
    faults: list[FaultView] | None = Field(
        description="Null while no host agent responds, because the faults are unknown"
    )
    losses: list[dict[str, Any]]
    settings: dict[str, Any]
    history_trouble: str = Field(
        "",
        description="Why the journal does not advance, or which node's journal started again; empty if all is well",
    )
    unreadable: list[str] = Field(description="Znodes with invalid content, which are left out, and why")
    problems: list[str] = Field(
        default=[], description="Links that are cut, and partitions that cannot be written, and why"
    )


class Health(BaseModel):
    """State of the API service."""

    model_config = _example(status="ok")

    status: str


class Ready(BaseModel):
    """Response of the readiness check if the cluster is ready."""

    model_config = _example(status="ready", quorum=True, controller=1, brokers=[1, 2, 3])

    status: str
    quorum: bool
    controller: int
    brokers: list[int]


class ProcessResult(BaseModel):
    """State of a process after a requested action."""

    model_config = _example(id=1, node="broker-1", action="kill", process="down", pid=None)

    id: int
    node: str
    action: NodeAction
    process: ProcessState
    pid: int | None


class Table(BaseModel):
    """A table that Spark builds from the journals."""

    model_config = _example(
        table="controller_terms", columns=["broker_id", "controller_epoch"], rows=[{"broker_id": 1}], total=1,
        written_ms=1700000000000, lag_ms=1400,
    )  # fmt: skip

    table: str
    columns: list[str]
    rows: list[dict[str, Any]]
    total: int
    written_ms: int
    lag_ms: int | None = None
    """Delay from the latest journal entry to the table update that includes it; null if no stream updates the table."""
