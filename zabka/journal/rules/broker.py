"""The rules by which Kafka's brokers decide: about in-sync replicas, logs, and whose requests they take."""

from __future__ import annotations

from collections.abc import Mapping

from zabka.journal import events as e
from zabka.journal.rules.rule import Rule, kafka, references, source

_PARTITION = "cluster/Partition.scala"
_REPLICA_MANAGER = "server/ReplicaManager.scala"
_FETCHER = "server/AbstractFetcherThread.scala"

REGISTRATION = Rule(
    "a registration belongs to a session",
    "A broker is registered by an ephemeral of its own session, whose czxid is its broker epoch; where another session "
    "holds its id it waits.",
    source("controller/controller.py:KafkaController._register"),
    kafka("KafkaZkClient.registerBroker", "zk/KafkaZkClient.scala"),
    references("KIP-380", "KAFKA-7165"),
)
CLIENT_SESSION = Rule(
    "only the ensemble says that a session is over",
    "A client that hears nothing is suspended and looks for another server; that its session has expired it learns "
    "from a server alone.",
    source("ensemble/client/session.py:Session._on_connect_response"),
    kafka("ZooKeeperClient", "zookeeper/ZooKeeperClient.scala"),
)
LAG = Rule(
    "who is behind for too long leaves the ISR",
    "A follower that has not been level with its leader for replica.lag.time.max.ms is to leave the ISR, however many "
    "records it lacks.",
    source("broker_sim/replication/isr_rules.py:IsrRules.lagging"),
    kafka("Partition.maybeShrinkIsr", _PARTITION),
    references("KIP-16"),
)
CAUGHT_UP = Rule(
    "who has all that is committed joins the ISR",
    "A living follower may join the ISR once its log reaches the high watermark and the start of the leader's epoch; "
    "it need not have everything.",
    source("broker_sim/replication/isr_rules.py:IsrRules.may_join"),
    kafka("Partition.maybeExpandIsr", _PARTITION),
    references("KAFKA-7128"),
)
ALTER_PARTITION = Rule(
    "a leader proposes, the controller writes",
    "A leader's ISR is written by the controller, and only for the version of the partition's state that the leader "
    "knows.",
    source("controller/alter_partition.py:process_alter_partition"),
    kafka("KafkaController.tryProcessAlterPartition", "controller/KafkaController.scala"),
    references("KIP-497"),
)
DIRECT_ISR = Rule(
    "a leader writes its ISR itself",
    "Before AlterPartition a leader wrote the state znode by the version it remembered; a version that is stale stays "
    "so.",
    source("broker_sim/replication/zookeeper_isr.py:ZooKeeperIsrWriter"),
    kafka("ZkAlterPartitionManager", "server/ZkAlterPartitionManager.scala"),
    references("KAFKA-2729", "KIP-497"),
)
CONTROLLER_ISR = Rule(
    "a new leader comes with its ISR",
    "Leader and ISR are one znode: the controller that writes the one writes the other.",
    source("controller/partition_store.py:PartitionStore.announce_leader"),
    kafka("ZkPartitionStateMachine.doElectLeaderForPartitions", "controller/PartitionStateMachine.scala"),
)
LEADERSHIP = Rule(
    "an epoch begins where the leader's log ends",
    "A new leader notes its leader epoch with the offset at which its own log ends, and takes its log for the "
    "partition's.",
    source("broker_sim/replication/partition.py:Partition.make_leader"),
    kafka("Partition.makeLeader", _PARTITION),
    references("KIP-101"),
)
FOLLOWERSHIP = Rule(
    "the higher leader epoch is followed",
    "A broker follows whom LeaderAndIsr names, unless it knows of a later state already.",
    source("broker_sim/replication/partition.py:Partition.make_follower"),
    kafka("Partition.makeFollower", _PARTITION),
)
DIVERGENCE = Rule(
    "a follower cuts where the logs part",
    "A fetch names the epoch of the follower's last record; where the leader's history differs it answers where, and "
    "the follower cuts its log there.",
    source("broker_sim/replication/following.py:truncate_to_divergence"),
    kafka("AbstractFetcherThread.truncateOnFetchResponse", _FETCHER),
    references("KIP-595", "KIP-279", "KIP-101"),
)
CUT_TO_HIGH_WATERMARK = Rule(
    "a follower cut to its high watermark",
    "Before Kafka 0.11 a new follower dropped whatever it had not been told to be committed; its high watermark trails "
    "its leader's, so that could be committed all the same.",
    source("broker_sim/replication/truncation.py:TruncateToHighWatermark"),
    kafka("AbstractFetcherThread.truncateToHighWatermark", _FETCHER),
    references("KAFKA-1211", "KIP-101"),
)
CUT_TO_EPOCH_END = Rule(
    "a follower cut where its leader's epoch ended",
    "Kafka 0.11 to 1.1 asked once where the last epoch ended, and cut there without a look at which epoch the answer "
    "was about.",
    source("broker_sim/replication/truncation.py:TruncateToEpochEnd"),
    kafka("AbstractFetcherThread.truncateToEpochEndOffsets", _FETCHER),
    references("KIP-101", "KIP-279", "KAFKA-6361"),
)
CUT_TO_LEADER_END = Rule(
    "no follower is longer than its leader",
    "A follower whose log goes on where its leader's has ended cuts it there.",
    source("broker_sim/replication/fetcher.py:ReplicaFetcher._find_offset"),
    kafka("AbstractFetcherThread.fetchOffsetAndTruncate", _FETCHER),
)
CUT_TO_LEADER_START = Rule(
    "what the leader has deleted is no gap",
    "A follower all of whose records its leader has deleted begins anew where the leader's log starts.",
    source("broker_sim/replication/following.py:restart_at"),
    kafka("AbstractFetcherThread.fetchOffsetAndTruncate", _FETCHER),
)
MISSING_AT_START = Rule(
    "a log that ends below its mark has lost records",
    "A broker that opens a log which ends before the high watermark it once noted has lost what lies between.",
    source("broker_sim/logs/log_manager.py:LogManager._journal_loss"),
    kafka("LogManager.loadLog", "log/LogManager.scala"),
    references("KIP-966"),
)
HIGH_WATERMARK = Rule(
    "committed is what everybody in sync has",
    "The high watermark is the lowest log end among those in sync, and does not move while fewer than "
    "min.insync.replicas are.",
    source("broker_sim/replication/isr_rules.py:IsrRules.commit_offset"),
    kafka("Partition.maybeIncrementLeaderHW", _PARTITION),
    references("KAFKA-15583"),
)
FOLLOWERS_HIGH_WATERMARK = Rule(
    "a follower's high watermark trails",
    "A follower learns the high watermark with its next fetch, so that its own is one round trip old.",
    source("broker_sim/replication/following.py:append_fetched"),
    kafka("ReplicaFetcherThread.processPartitionData", "server/ReplicaFetcherThread.scala"),
    references("KIP-101"),
)
ACKS_ALL = Rule(
    "acks=all waits for the ISR",
    "With acks=all a record is acknowledged once the high watermark has passed it, which is once everybody in sync "
    "has it.",
    source("broker_sim/replication/partition.py:Partition.acks_all_state"),
    kafka("Partition.checkEnoughReplicasReachOffset", _PARTITION),
)
ACKS_ONE = Rule(
    "acks=1 asks the leader alone",
    "With acks=1 a record is acknowledged as soon as the leader has it, whoever else lacks it.",
    source("broker_sim/replication/producing.py:Producing._produced"),
    kafka("ReplicaManager.appendRecords", _REPLICA_MANAGER),
)
STALE_CONTROLLER = Rule(
    "an older controller is not obeyed",
    "A broker refuses a request whose controller epoch is lower than the highest that it knows.",
    source("broker_sim/replication/hosted_partitions.py:HostedPartitions.accept"),
    kafka("ReplicaManager.becomeLeaderOrFollower", _REPLICA_MANAGER),
    references("KAFKA-6082"),
)
STALE_BROKER = Rule(
    "a request for a former life is refused",
    "A request states the broker epoch of whom it is for, and a broker that has been registered anew since refuses it.",
    source("broker_sim/replication/fencing.py:fences"),
    kafka("KafkaApis.isBrokerEpochStale", "server/KafkaApis.scala"),
    references("KIP-380", "KAFKA-7235"),
)
STALE_LEADER_EPOCH = Rule(
    "an older leader epoch changes nothing",
    "What is said of a partition in a leader epoch that is over is refused.",
    source("broker_sim/replication/hosted_partitions.py:HostedPartitions.become_leader_or_follower"),
    kafka("ReplicaManager.becomeLeaderOrFollower", _REPLICA_MANAGER),
    references("KIP-320"),
)
REFUSED_ISR = Rule(
    "an ISR is proposed upon the newest state",
    "The controller refuses an ISR that somebody else than the leader proposes, or upon another version than it knows.",
    source("controller/alter_partition.py:_judge"),
    kafka("KafkaController.tryProcessAlterPartition", "controller/KafkaController.scala"),
    references("KIP-497"),
)
REFUSED_MEMBER = Rule(
    "only the living join an ISR",
    "An ISR with a member that is dead, shutting down, or not the process that its leader saw catch up is refused.",
    source("controller/alter_partition.py:_judge"),
    kafka("KafkaController.tryProcessAlterPartition", "controller/KafkaController.scala"),
    references("KIP-841", "KIP-903"),
)

_CUTS: tuple[tuple[str, Rule], ...] = (
    ("cause=high_watermark", CUT_TO_HIGH_WATERMARK),
    ("cause=leader_epoch", CUT_TO_EPOCH_END),
    ("cause=offset_out_of_range", CUT_TO_LEADER_END),
    ("cause=leader_start", CUT_TO_LEADER_START),
    ("cause=missing_at_start", MISSING_AT_START),
)

BROKER_RULES: Mapping[type[e.Event], tuple[tuple[str, Rule], ...]] = {
    e.BrokerRegistered: (("", REGISTRATION),),
    e.BrokerSessionChanged: (("", CLIENT_SESSION),),
    e.IsrProposed: (("cause=lag", LAG), ("cause=caught_up", CAUGHT_UP)),
    e.IsrChanged: (("cause=controller", CONTROLLER_ISR), ("moved", DIRECT_ISR), ("", ALTER_PARTITION)),
    e.LeadershipTaken: (("", LEADERSHIP),),
    e.FollowershipTaken: (("", FOLLOWERSHIP),),
    e.LogTruncated: (*_CUTS[:-1], ("", DIVERGENCE)),
    e.RecordsLost: (*_CUTS, ("", DIVERGENCE)),
    e.HighWatermarkMoved: (("is_leader", HIGH_WATERMARK), ("", FOLLOWERS_HIGH_WATERMARK)),
    e.RecordsAcknowledged: (("acks=-1", ACKS_ALL), ("acks=1", ACKS_ONE)),
    e.RequestFenced: (
        ("reason=STALE_CONTROLLER_EPOCH", STALE_CONTROLLER),
        ("reason=STALE_BROKER_EPOCH", STALE_BROKER),
        ("reason=INELIGIBLE_REPLICA", REFUSED_MEMBER),
        ("reason=OPERATION_NOT_ATTEMPTED", REFUSED_MEMBER),
        ("request=AlterPartition", REFUSED_ISR),
        ("", STALE_LEADER_EPOCH),
    ),
}
