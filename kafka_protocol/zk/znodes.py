"""Kafka's znodes: their paths, and what is written in them (kafka.zk.ZkData).

Encoders write the fields in the order of Kafka's sources and maps in numeric or given order.  Decoders take what any
version of Kafka wrote, and answer None for what nobody should have written: znodes are other people's input.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from journal.events import TopicPartition
from kafka_protocol.topic_ids import is_topic_id

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"
BROKER_SEQUENCE_ID = "/brokers/seqid"
DELETE_TOPICS = "/admin/delete_topics"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
ISR_CHANGE_NOTIFICATION = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION = "/log_dir_event_notification"
LATEST_PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONFIG_CHANGES = "/config/changes"
CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"
CONFIG_KINDS = ("topics", "clients", "users", "brokers", "ips")

PERSISTENT_PATHS = (
    "/consumers",
    BROKER_IDS,
    BROKER_TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGE_NOTIFICATION,
    LATEST_PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    *(f"/config/{kind}" for kind in CONFIG_KINDS),
)
"""Made at every broker start (ZkData.PersistentZkPaths)."""


def broker_path(broker_id: int) -> str:
    """/brokers/ids/N."""
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    """/brokers/topics/T."""
    return f"{BROKER_TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """/brokers/topics/T/partitions."""
    return f"{BROKER_TOPICS}/{topic}/partitions"


def partition_path(partition: TopicPartition) -> str:
    """/brokers/topics/T/partitions/P."""
    return f"{BROKER_TOPICS}/{partition.topic}/partitions/{partition.partition}"


def partition_state_path(partition: TopicPartition) -> str:
    """/brokers/topics/T/partitions/P/state."""
    return partition_path(partition) + "/state"


DEFAULT_ENTITY = "<default>"
"""Under /config/brokers, users, clients or ips: all of which nothing else is said."""


def config_path(kind: str, entity: str) -> str:
    """/config/{topics,brokers,...}/E."""
    return f"/config/{kind}/{entity}"


def delete_topic_path(topic: str) -> str:
    """/admin/delete_topics/T."""
    return f"{DELETE_TOPICS}/{topic}"


def encode(value: Mapping[str, object]) -> bytes:
    """JSON as Kafka writes it: no spaces, fields in the given order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes | None) -> dict[str, Any] | None:
    """The JSON object in a znode; None where there is none."""
    try:
        value = json.loads(data) if data else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


INT32_MAX = 2**31 - 1
"""Ids, partition numbers and epochs travel as signed 32-bit numbers; what is larger cannot be told to anybody."""
INT64_MAX = 2**63 - 1
PORT_MAX = 65_535


def _is_int32(value: object, lowest: int, highest: int = INT32_MAX) -> bool:
    return _is_int(value) and isinstance(value, int) and lowest <= value <= highest


def _ids(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(_is_int32(each, 0) for each in value):
        return None
    return tuple(value)


def _number(text: str, highest: int) -> int | None:
    """Plain decimal digits, up to that number."""
    if not text.isdecimal() or not text.isascii() or len(text) > len(str(highest)):
        return None
    return int(text) if int(text) <= highest else None


# ---- /controller, /controller_epoch ---------------------------------------------------------------------------


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    """The content of /controller (ControllerZNode, version 2)."""
    return encode({"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1})


def decode_controller(data: bytes | None) -> int | None:
    """The broker id in /controller, of any version."""
    value = decode(data)
    broker_id = value.get("brokerid") if value else None
    return broker_id if _is_int32(broker_id, 0) else None


def encode_controller_epoch(epoch: int) -> bytes:
    """Plain decimal text."""
    return str(epoch).encode()


def decode_controller_epoch(data: bytes | None) -> int | None:
    """The epoch in /controller_epoch."""
    return _number((data or b"").decode("ascii", "replace"), INT32_MAX - 1)


# ---- /brokers/ids ---------------------------------------------------------------------------------------------


class BrokerEndpoint(NamedTuple):
    """One of a broker's listeners, as others reach it."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


LOG_INTACT = ("zabka.log.intact", 1, 1)
"""How a broker of ours says that its log is: among its features, where the layout of a registration leaves room for
more (KIP-584), and which a controller of Kafka's passes over."""


class BrokerInfo(NamedTuple):
    """What a broker writes of itself into /brokers/ids/N."""

    broker_id: int
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    jmx_port: int = -1
    features: tuple[tuple[str, int, int], ...] = ()
    """The features it supports: name, lowest and highest level."""
    log_intact: bool = False
    """Has it all that it had when it was last registered?  Kafka's brokers do not say."""

    def supports(self, finalized: Mapping[str, int]) -> bool:
        """Does it know every feature of the cluster at its level?  If not, it cannot take part (KIP-584)."""
        supported = {name: (low, high) for name, low, high in self.features}
        for name, level in finalized.items():
            low, high = supported.get(name, (0, -1))
            if not low <= level <= high:
                return False
        return True


def encode_broker(info: BrokerInfo, timestamp_ms: int) -> bytes:
    """The content of /brokers/ids/N (BrokerIdZNode, version 5)."""
    plain = next((e for e in info.endpoints if e.security_protocol == "PLAINTEXT"), None)
    value: dict[str, object] = {
        "version": 5,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "jmx_port": info.jmx_port,
        "timestamp": str(timestamp_ms),
        "endpoints": [f"{e.listener}://{_bracketed(e.host)}:{e.port}" for e in info.endpoints],
    }
    if info.rack is not None:
        value["rack"] = info.rack
    value["listener_security_protocol_map"] = {e.listener: e.security_protocol for e in info.endpoints}
    features = (*info.features, LOG_INTACT) if info.log_intact else info.features
    value["features"] = {n: {"min_version": low, "max_version": high} for n, low, high in features}
    return encode(value)


def decode_broker(broker_id: int, data: bytes | None) -> BrokerInfo | None:
    """A broker's registration, versions 1 to 5."""
    value = decode(data)
    if value is None:
        return None
    protocols = value.get("listener_security_protocol_map")
    names = protocols if isinstance(protocols, dict) else {}
    listed = value.get("endpoints")
    endpoints: list[BrokerEndpoint] = []
    if isinstance(listed, list) and listed:
        for each in listed:
            endpoint = _endpoint(each, names)
            if endpoint is None:
                return None
            endpoints.append(endpoint)
    elif isinstance(value.get("host"), str) and _is_int32(value.get("port"), 0, PORT_MAX):
        endpoints.append(BrokerEndpoint("PLAINTEXT", value["host"], value["port"]))
    else:
        return None
    rack, jmx_port = value.get("rack"), value.get("jmx_port")
    features = _features(value.get("features"))
    return BrokerInfo(
        broker_id,
        tuple(endpoints),
        rack if isinstance(rack, str) else None,
        jmx_port if isinstance(jmx_port, int) and _is_int32(jmx_port, -1, PORT_MAX) else -1,
        tuple(feature for feature in features if feature != LOG_INTACT),
        LOG_INTACT in features,
    )


def _features(value: object) -> tuple[tuple[str, int, int], ...]:
    """What can be read of a broker's features; a feature that cannot counts as not supported."""
    found = []
    for name, row in value.items() if isinstance(value, dict) else ():
        low, high = (row.get("min_version"), row.get("max_version")) if isinstance(row, dict) else (None, None)
        if isinstance(low, int) and isinstance(high, int) and _is_int32(low, 0) and _is_int32(high, 0):
            found.append((str(name), low, high))
    return tuple(found)


def _endpoint(text: object, protocols: Mapping[str, object]) -> BrokerEndpoint | None:
    if not isinstance(text, str):
        return None
    listener, found, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    number = _number(port, PORT_MAX)
    if not found or not colon or number is None or not text.isascii():
        return None
    protocol = protocols.get(listener, listener)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return BrokerEndpoint(listener, host, number, str(protocol))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# ---- /brokers/topics ------------------------------------------------------------------------------------------


class ReplicaAssignment(NamedTuple):
    """A partition's replicas, the preferred leader first; `adding` and `removing` are set while it is reassigned."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment under way."""
        return tuple(b for b in self.replicas if b not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once the reassignment under way is complete."""
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        """Is a reassignment under way?"""
        return bool(self.adding or self.removing)

    def reassign_to(self, target: Iterable[int]) -> ReplicaAssignment:
        """The assignment while replicas move to the target, which may supersede another one (KIP-455)."""
        wanted, origin = tuple(target), self.origin
        full = tuple(dict.fromkeys((*wanted, *origin)))
        return ReplicaAssignment(
            full, tuple(b for b in full if b not in origin), tuple(b for b in full if b not in wanted)
        )

    def without(self, broker_id: int) -> ReplicaAssignment:
        """The assignment once that replica is no more."""
        return ReplicaAssignment(*(tuple(b for b in ids if b != broker_id) for ids in self))


class TopicAssignment(NamedTuple):
    """The content of /brokers/topics/T.  `topic_id` is None in topics that were made before Kafka 2.8."""

    topic_id: str | None
    partitions: dict[int, ReplicaAssignment]


def encode_topic(topic: TopicAssignment) -> bytes:
    """The content of /brokers/topics/T (TopicZNode, version 3; 2 without a topic id)."""
    numbers = sorted(topic.partitions)
    value: dict[str, object] = {
        "version": 2 if topic.topic_id is None else 3,
        "partitions": {str(n): topic.partitions[n].replicas for n in numbers},
        "adding_replicas": {str(n): topic.partitions[n].adding for n in numbers if topic.partitions[n].adding},
        "removing_replicas": {str(n): topic.partitions[n].removing for n in numbers if topic.partitions[n].removing},
    }
    if topic.topic_id is not None:
        value["topic_id"] = topic.topic_id
    return encode(value)


def decode_topic(data: bytes | None) -> TopicAssignment | None:
    """A topic's assignment, versions 1 to 3."""
    value = decode(data)
    if value is None:
        return None
    replicas = _numbered(value.get("partitions"))
    adding = _numbered(value.get("adding_replicas", {}))
    removing = _numbered(value.get("removing_replicas", {}))
    if replicas is None or adding is None or removing is None:
        return None
    if any(not each or len(set(each)) != len(each) for each in replicas.values()):
        return None
    topic_id = value.get("topic_id")
    return TopicAssignment(
        topic_id if is_topic_id(topic_id) else None,
        {n: ReplicaAssignment(replicas[n], adding.get(n, ()), removing.get(n, ())) for n in sorted(replicas)},
    )


def _numbered(value: object) -> dict[int, tuple[int, ...]] | None:
    if not isinstance(value, dict):
        return None
    found: dict[int, tuple[int, ...]] = {}
    for name, listed in value.items():
        ids, number = _ids(listed), _number(name, INT32_MAX)
        if ids is None or number is None:
            return None
        found[number] = ids
    return found


# ---- partition state ------------------------------------------------------------------------------------------


class LeaderAndIsr(NamedTuple):
    """A partition's state znode (LeaderIsrAndControllerEpoch).  `partition_epoch` is that znode's version.

    `eligible` are replicas outside the ISR that have all that was committed, by the configuration that the transaction
    `eligible_by_zxid` wrote; `doubtful` members of the ISR may not have it; its writer had seen registrations up to
    `broker_epoch_seen`.  See `eligibility`.  Kafka's controllers skip these four, and drop them when they write.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int = 0
    recovering: bool = False
    eligible: tuple[int, ...] = ()
    eligible_by_zxid: int = -1
    doubtful: tuple[int, ...] = ()
    broker_epoch_seen: int = -1


def encode_partition_state(state: LeaderAndIsr) -> bytes:
    """The content of a state znode (TopicPartitionStateZNode); its partition epoch is the znode's own version."""
    value: dict[str, object] = {
        "version": 1,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "controller_epoch": state.controller_epoch,
        "isr": state.isr,
    }
    if state.recovering:
        value["leader_recovery_state"] = 1
    if state.eligible:
        value["eligible_leader_replicas"] = state.eligible
        value["eligible_by_zxid"] = state.eligible_by_zxid
        value["doubtful_replicas"] = state.doubtful
        value["broker_epoch_seen"] = state.broker_epoch_seen
    return encode(value)


def decode_partition_state(data: bytes | None, version: int) -> LeaderAndIsr | None:
    """The state in a znode of that version."""
    value = decode(data)
    if value is None:
        return None
    isr = _ids(value.get("isr"))
    leader, leader_epoch, controller_epoch = (
        value.get("leader"),
        value.get("leader_epoch"),
        value.get("controller_epoch"),
    )
    in_range = _is_int32(leader, -1) and _is_int32(leader_epoch, 0, INT32_MAX - 1) and _is_int32(controller_epoch, 0)
    if isr is None or not in_range:
        return None
    assert isinstance(leader, int) and isinstance(leader_epoch, int) and isinstance(controller_epoch, int)
    recovering = value.get("leader_recovery_state", 0) == 1
    state = LeaderAndIsr(leader, leader_epoch, isr, controller_epoch, version, recovering)
    eligible, doubtful = _ids(value.get("eligible_leader_replicas")), _ids(value.get("doubtful_replicas"))
    by_zxid, seen = value.get("eligible_by_zxid"), value.get("broker_epoch_seen")
    if not eligible or doubtful is None or type(by_zxid) is not int or type(seen) is not int:
        return state
    return state._replace(eligible=eligible, eligible_by_zxid=by_zxid, doubtful=doubtful, broker_epoch_seen=seen)


# ---- the rest -------------------------------------------------------------------------------------------------


def encode_partition_set(partitions: Iterable[TopicPartition]) -> bytes:
    """The content of /admin/preferred_replica_election and of an ISR change notification."""
    listed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return encode({"version": 1, "partitions": listed})


def decode_partition_set(data: bytes | None) -> list[TopicPartition] | None:
    """The partitions listed, each once, in order."""
    value = decode(data)
    listed = value.get("partitions") if value else None
    if not isinstance(listed, list):
        return None
    found: dict[TopicPartition, None] = {}
    for each in listed:
        if not isinstance(each, dict):
            return None
        topic, partition = each.get("topic"), each.get("partition")
        if not isinstance(topic, str) or not isinstance(partition, int) or not _is_int32(partition, 0):
            return None
        found[TopicPartition(topic, partition)] = None
    return list(found)


def encode_reassignments(targets: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """The content of /admin/reassign_partitions."""
    rows = [{"topic": p.topic, "partition": p.partition, "replicas": replicas} for p, replicas in targets.items()]
    return encode({"version": 1, "partitions": rows})


def decode_reassignments(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]] | None:
    """The target replicas of each partition listed; of one listed twice the last word counts."""
    value = decode(data)
    listed = value.get("partitions") if value else None
    if not isinstance(listed, list):
        return None
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for each in listed:
        if not isinstance(each, dict):
            return None
        topic, partition, replicas = each.get("topic"), each.get("partition"), _ids(each.get("replicas"))
        if not isinstance(topic, str) or not isinstance(partition, int) or not _is_int32(partition, 0):
            return None
        if replicas is None:
            return None
        found[TopicPartition(topic, partition)] = replicas
    return found


def encode_log_dir_event(broker_id: int) -> bytes:
    """The content of a /log_dir_event_notification/log_dir_event_N: a log directory of that broker failed."""
    return encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(data: bytes | None) -> int | None:
    """The broker whose log directory failed."""
    value = decode(data)
    broker_id = value.get("broker") if value else None
    return broker_id if _is_int32(broker_id, 0) else None


def encode_config(config: Mapping[str, str]) -> bytes:
    """The content of /config/{topics,...}/E."""
    return encode({"version": 1, "config": dict(config)})


def decode_config(data: bytes | None) -> dict[str, str] | None:
    """The overrides of an entity."""
    value = decode(data)
    config = value.get("config") if value else None
    if not isinstance(config, dict) or not all(isinstance(each, str) for each in config.values()):
        return None
    return config


def encode_config_change(entity_path: str) -> bytes:
    """The content of a /config/changes/config_change_N: topics/T, brokers/N."""
    return encode({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes | None) -> str | None:
    """The entity path of a config change notification."""
    value = decode(data)
    entity_path = value.get("entity_path") if value else None
    return entity_path if isinstance(entity_path, str) else None


def encode_cluster_id(cluster_id: str) -> bytes:
    """The content of /cluster/id; its version is a string."""
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str | None:
    """The cluster's id."""
    value = decode(data)
    cluster_id = value.get("id") if value else None
    return cluster_id if isinstance(cluster_id, str) else None


def encode_producer_id_block(broker_id: int, first: int, last: int) -> bytes:
    """The content of /latest_producer_id_block; both ends are strings and included."""
    return encode({"version": 1, "broker": broker_id, "block_start": str(first), "block_end": str(last)})


def decode_producer_id_block(data: bytes | None) -> tuple[int, int, int] | None:
    """(broker, first, last) of the latest block."""
    value = decode(data) or {}
    broker = value.get("broker")
    first, last = (_number(str(value.get(end)), INT64_MAX) for end in ("block_start", "block_end"))
    if not isinstance(broker, int) or first is None or last is None:
        return None
    return broker, first, last
