"""Columns of the gold tables: name, type and unit of each, and the columns that are added to every table.

Each time in microseconds (`from_us`) is also a timestamp (`from_ts`). In addition to `run` there are `cluster_run` and
`simulated_run`: the one that matches the kind of the run contains its name, and the other is null.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType, TimestampType

from zabka.pipeline.bodies import INTS, STANDINGS, STRINGS
from zabka.pipeline.runs import NODE_FILE

MOMENT, TIMESTAMP = "_us", "_ts"
_OF_RUN = ("cluster_run", "simulated_run")
_TYPES = {
    kind.simpleString(): kind
    for kind in (LongType(), StringType(), BooleanType(), DoubleType(), TimestampType(), INTS, STRINGS, STANDINGS)
}
"""Types of the columns, by their names in SQL."""


class Described(NamedTuple):
    """A column: its name, its SQL type, and its meaning, including the unit."""

    name: str
    kind: str
    meaning: str


def finished(frame: DataFrame) -> DataFrame:
    """Add the timestamp columns, and the columns for the kind of each run, to a table."""
    columns: list[Column] = []
    for name in frame.columns:
        columns.append(f.col(name))
        if name == "run":
            columns += _kinds_of_run()
        elif name.endswith(MOMENT):
            columns.append(f.timestamp_micros(name).alias(name.removesuffix(MOMENT) + TIMESTAMP))
    return frame.select(*columns)


def _kinds_of_run() -> list[Column]:
    last = f.substring_index("run", "/", -1)
    simulated = last.endswith(".jsonl") & ~last.rlike(f"^{NODE_FILE}$")
    return [
        f.when(~simulated, f.col("run")).alias("cluster_run"),
        f.when(simulated, f.col("run")).alias("simulated_run"),
    ]


def described(table: str) -> list[Described]:
    """Return all columns of a table, in order.  Raises KeyError for an unknown table."""
    found = []
    for name in _TABLES[table].split():
        found.append(Described(name, _kind(name), _meaning(table, name)))
        if name == "run":
            found += [Described(each, "string", _MEANINGS[each]) for each in _OF_RUN]
        elif name.endswith(MOMENT):
            found.append(Described(name.removesuffix(MOMENT) + TIMESTAMP, "timestamp", f"`{name}` as a timestamp"))
    return found


def schema_of(table: str) -> StructType:
    """Return the schema of a table.  Raises KeyError for an unknown table."""
    return StructType([StructField(column.name, _TYPES[column.kind]) for column in described(table)])


def _kind(name: str) -> str:
    return next((kind for kind, names in _KINDS.items() if name in names.split()), "bigint")


def _meaning(table: str, name: str) -> str:
    text = _MEANINGS.get(f"{table}.{name}") or _MEANINGS[name]
    if name.endswith(MOMENT):
        return f"{text}; microseconds since 1970"
    return f"{text}; milliseconds" if name.endswith(("_ms", "_ms_ago")) else text


_PARTITION = "run topic partition"
_TABLES = {
    "controller_terms": """
        run broker_id controller_epoch from_us to_us duration_ms ended_by gap_before_ms detection_ms election_ms
        loading_ms zxid
    """,
    "failovers": """
        run controller_epoch broker_id previous_broker_id cause at_us detect_ms elect_ms read_ms decide_ms propagate_ms
        total_ms zxid
    """,
    "partition_leaderships": f"""
        {_PARTITION} life leader leader_epoch from_us to_us duration_ms unclean cause isr replicas partition_epoch
        controller_epoch zxid run_us
    """,
    "isr_changes": f"""
        {_PARTITION} life at_us isr_before isr removed added cause evidence leader leader_epoch partition_epoch zxid
        run_us
    """,
    "isr_membership": f"{_PARTITION} life replica from_us to_us duration_ms ended_by from_zxid",
    "availability": f"""
        {_PARTITION} observed_ms offline_ms leader_down_ms under_min_isr_ms isr_stalled_ms under_replicated_ms
        available_acks_1_ms availability_acks_1 available_acks_all_ms availability_acks_all planned_ms unseen_ms
        elections unclean_elections
    """,
    "client_availability": """
        run node workload_id topic acks from_us to_us sent acknowledged failed lost running_ms waited_ms share
    """,
    "records_lost": f"""
        {_PARTITION} topic_id first_offset last_offset count committed_at_least acknowledged below_high_watermark
        broker_ids causes first_us last_us
    """,
    "transactions": """
        run transactional_id number producer_id producer_epoch from_us decided_us to_us outcome abort_reason partitions
        markers duration_ms decision_ms
    """,
    "sessions": """
        run session_id timeout_ms from_us to_us duration_ms ended_by heard_ms_ago ephemerals created_zxid closed_zxid
    """,
    "elections": """
        run peer first_seq from_us to_us election_ms discovery_ms synchronization_ms total_ms rounds state leader_id
        epoch
    """,
    "faults": """
        run node fault_id kind source target both_ways delay_ms requester from_us to_us duration_ms node_seq
    """,
    "incidents": """
        run number from_us to_us duration_ms kind target cause_node cause_node_seq detected_by detection_ms expired
        expiry_ms controller controller_epoch no_controller_ms leaderless leaderless_ms elected_uncleanly
        under_replicated stalled stall_ms failed lost committed_at_least acknowledged requester headline summary
    """,
    "clock_steps": "run node node_seq at_us step_ms",
    "bad_lines": "run file position problem line",
}
_KINDS = {
    "string": """
        run node topic topic_id transactional_id outcome abort_reason workload_id acks cause ended_by peer state
        fault_id kind source target requester file problem line cause_node detected_by headline summary
    """,
    "boolean": "unclean both_ways",
    "double": "availability_acks_1 availability_acks_all share",
    "array<bigint>": "isr isr_before removed added replicas broker_ids",
    "array<string>": """
        causes ephemerals partitions expired leaderless elected_uncleanly under_replicated stalled
    """,
    "array<struct<replica:bigint,log_end_offset:bigint,leader_end_offset:bigint,high_watermark:bigint,"
    "caught_up_ms_ago:bigint,lag_time_max_ms:bigint>>": "evidence",
}
_MEANINGS = {
    "run": "the history: the place of its journals below `--data`",
    "cluster_run": "the run, if its journals are those of a cluster's nodes",
    "simulated_run": "the run, if its journal is one file, as `zabka replay --out` writes it",
    "node": "the node that reported it",
    "node_seq": "the number of the line in the journal of the node",
    "topic": "the topic's name",
    "topic_id": "the topic's id, in base64; empty in journals without it",
    "partition": "the partition's number",
    "life": "how often the partition was deleted and created again before",
    "broker_id": "the controller's broker id",
    "previous_broker_id": "the broker id of the controller before it",
    "controller_epoch": "the controller epoch",
    "leader": "the leader's broker id; -1 for none",
    "leader_epoch": "the leader epoch",
    "partition_epoch": "the partition epoch: the version of its state's znode",
    "zxid": "the zxid of the write in the ensemble",
    "from_zxid": "the zxid of the write that added the replica",
    "created_zxid": "the zxid of the session's creation",
    "closed_zxid": "the zxid of the session's end",
    "from_us": "when it began",
    "to_us": "when it ended; null while it lasts",
    "at_us": "when it happened",
    "run_us": "when it happened, on the one clock of the run",
    "duration_ms": "how long it lasted",
    "ended_by": "what ended it; null while it lasts",
    "gap_before_ms": "how long no controller could act before it",
    "detection_ms": "of that gap, until the session of the last controller ended",
    "controller_terms.election_ms": "of that gap, until this controller was elected",
    "loading_ms": "of that gap, until this controller had read the state and decided",
    "cause": "the cause that the event names",
    "failovers.cause": "how the term before ended",
    "detect_ms": "from the death or freeze of the last controller to the end of its session",
    "elect_ms": "from there to the election",
    "read_ms": "how long the new controller read the state",
    "decide_ms": "how long it decided",
    "propagate_ms": "how long until every broker had answered",
    "failovers.total_ms": "the gap and `propagate_ms` together",
    "unclean": "whether the election was unclean",
    "isr": "the broker ids of the ISR",
    "isr_before": "the ISR before the change",
    "removed": "the broker ids that left the ISR",
    "added": "the broker ids that joined the ISR",
    "replicas": "the broker ids of the replicas",
    "replica": "the replica's broker id",
    "evidence": "the positions of followers (offsets; milliseconds) when their leader decided",
    "observed_ms": "the time that counts",
    "offline_ms": "of it, without a leader by the controller's last write",
    "leader_down_ms": "of it, while the leader's process was down or paused",
    "under_min_isr_ms": "of it, while the leader ran and the ISR was below min.insync.replicas",
    "isr_stalled_ms": "of it, while the leader waited for a member of the ISR that was dead or cut off",
    "under_replicated_ms": "of it, while the ISR was smaller than the replicas",
    "available_acks_1_ms": "of it, while writes with acks=1 were possible",
    "available_acks_all_ms": "of it, while writes with acks=all were possible",
    "availability_acks_1": "share of the observed time, 0 to 1",
    "availability_acks_all": "share of the observed time, 0 to 1",
    "planned_ms": "not observed: the leader was stopped on purpose",
    "unseen_ms": "not observed: it is unknown when the leader's process ended",
    "elections": "number of leader elections",
    "unclean_elections": "number of unclean leader elections",
    "workload_id": "the workload",
    "acks": "all, 1 or 0",
    "sent": "number of records sent",
    "acknowledged": "number of records acknowledged",
    "records_lost.acknowledged": "number of these records that had been acknowledged to built-in workloads, at least",
    "failed": "number of records that were given up",
    "lost": "number of acknowledged records that were missing at the last report",
    "running_ms": "how long the workload produced",
    "waited_ms": "for how much of that a write waited",
    "share": "share of the running time without a waiting write, 0 to 1",
    "first_offset": "the first lost offset",
    "last_offset": "the last lost offset",
    "count": "number of lost records",
    "committed_at_least": "number of these records that were committed, at least",
    "below_high_watermark": "older name of `committed_at_least`",
    "broker_ids": "the broker ids of the replicas that reported the loss",
    "causes": "the causes that they reported",
    "first_us": "the first report",
    "last_us": "the last report",
    "transactional_id": "the transactional id",
    "number": "the number of the transaction of this id, from 1",
    "producer_id": "the producer id",
    "producer_epoch": "the producer epoch",
    "decided_us": "when the coordinator stored the outcome",
    "outcome": "committed or aborted; null before the decision",
    "abort_reason": "why it was aborted; null otherwise",
    "partitions": "the partitions of the transaction",
    "markers": "number of partitions with an end marker; null unless journals are full",
    "decision_ms": "from the first partition to the decision",
    "session_id": "the session's id",
    "timeout_ms": "the negotiated session timeout",
    "heard_ms_ago": "how long an expired session had been silent",
    "ephemerals": "the paths of the ephemeral znodes that ended with it",
    "peer": "the peer",
    "first_seq": "the number of the first line of the period in the journal of the peer",
    "election_ms": "time in the phase ELECTION",
    "discovery_ms": "time in the phase DISCOVERY",
    "synchronization_ms": "time in the phase SYNCHRONIZATION",
    "total_ms": "the phases together",
    "rounds": "number of election rounds",
    "state": "LEADING, FOLLOWING or OBSERVING; null if it did not get so far",
    "leader_id": "the peer that leads",
    "epoch": "the epoch of the leader",
    "fault_id": "the id of a link fault, or of a fault of the simulated world",
    "kind": "the kind of fault",
    "source": "the node of the fault; of a link, its sender",
    "target": "the same node; of a link, its receiver",
    "both_ways": "whether a link fault affects both directions",
    "delay_ms": "the delay of a link",
    "requester": "who requested it",
    "step_ms": "by how much the wall clock was set; negative: back",
    "file": "the file's name",
    "position": "the position of the line in the file, in bytes",
    "problem": "why the line is no entry",
    "line": "the beginning of the line",
    "incidents.number": "the number of the incident in its run, from 1",
    "incidents.from_us": "when its first cause happened",
    "incidents.to_us": "when leaders, controller, ISRs and clients were as before; null while they are not",
    "incidents.duration_ms": "the time from its first cause until then",
    "incidents.kind": "the kind of fault, the action on a process, or the type of an event whose cause is unknown",
    "incidents.target": "the node or the link",
    "cause_node": "the node whose journal has the first cause",
    "cause_node_seq": "its number there: `zabka why NODE#NUMBER` explains it",
    "detected_by": "the node that decided first because of it",
    "incidents.detection_ms": "the time until that decision",
    "expired": "the brokers whose sessions expired because of it",
    "expiry_ms": "the time until the first of these sessions expired",
    "controller": "the last broker that became controller because of it",
    "incidents.controller_epoch": "the epoch of that controller",
    "no_controller_ms": "the time without a controller",
    "leaderless": "the partitions that had no living leader",
    "leaderless_ms": "the time without one of the partition that waited longest",
    "elected_uncleanly": "the partitions with an unclean election",
    "under_replicated": "the partitions that lost members of their ISR",
    "stalled": "the workloads without a response; topic and time link them to the incident, not a recorded cause",
    "stall_ms": "the time without a response of the workload that waited longest",
    "incidents.failed": "number of records that these workloads gave up",
    "incidents.lost": "number of lost records",
    "incidents.committed_at_least": "number of these records that were committed, at least",
    "incidents.acknowledged": "number of these records that had been acknowledged to workloads",
    "incidents.requester": "who requested the fault",
    "headline": "the incident in one sentence",
    "summary": "what happened, in sentences, one on each line",
}
