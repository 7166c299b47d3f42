"""Rules of Kafka's brokers: in-sync replicas, logs, and rejected requests."""

from __future__ import annotations

from collections.abc import Mapping

from zabka.journal import events as e
from zabka.journal.rules.rule import Rule, kafka, kafka_client, references, source

_PARTITION = "cluster/Partition.scala"
_REPLICA_MANAGER = "server/ReplicaManager.scala"
_FETCHER = "server/AbstractFetcherThread.scala"

REGISTRATION = Rule(
    "a registration belongs to a session",
    "A broker registers with an ephemeral of its own session, and the czxid is its broker epoch. If another session "
    "holds its id, the broker waits.",
    source("controller/controller.py:KafkaController._register"),
    kafka("KafkaZkClient.registerBroker", "zk/KafkaZkClient.scala"),
    references("KIP-380", "KAFKA-7165"),
)
CLIENT_SESSION = Rule(
    "only the ensemble expires a session",
    "A client without a connection is suspended and looks for another server. Only a server can report that its "
    "session has expired.",
    source("ensemble/client/session.py:Session._on_connect_response"),
    kafka("ZooKeeperClient", "zookeeper/ZooKeeperClient.scala"),
)
LAG = Rule(
    "a replica that lags for too long leaves the ISR",
    "A follower leaves the ISR if it has not caught up with its leader for replica.lag.time.max.ms, however many "
    "records it lacks.",
    source("broker_sim/replication/isr_rules.py:IsrRules.lagging"),
    kafka("Partition.maybeShrinkIsr", _PARTITION),
    references("KIP-16"),
)
CAUGHT_UP = Rule(
    "a replica with all committed records joins the ISR",
    "A live follower can join the ISR once its log reaches the high watermark and the start of the leader's epoch. It "
    "need not have every record of the leader.",
    source("broker_sim/replication/isr_rules.py:IsrRules.may_join"),
    kafka("Partition.maybeExpandIsr", _PARTITION),
    references("KAFKA-7128"),
)
ALTER_PARTITION = Rule(
    "the leader proposes, the controller writes",
    "The controller writes the ISR that a leader proposes, and only if the leader knows the current version of the "
    "partition's state.",
    source("controller/alter_partition.py:process_alter_partition"),
    kafka("KafkaController.tryProcessAlterPartition", "controller/KafkaController.scala"),
    references("KIP-497"),
)
DIRECT_ISR = Rule(
    "a leader writes its ISR itself",
    "Before AlterPartition, a leader wrote the state znode with the version that it remembered. If that version is "
    "stale, every later write fails too.",
    source("broker_sim/replication/zookeeper_isr.py:ZooKeeperIsrWriter"),
    kafka("ZkAlterPartitionManager", "server/ZkAlterPartitionManager.scala"),
    references("KAFKA-2729", "KIP-497"),
)
CONTROLLER_ISR = Rule(
    "a new leader comes with its ISR",
    "Leader and ISR are in one znode, so the controller that writes one also writes the other.",
    source("controller/partition_store.py:PartitionStore.announce_leader"),
    kafka("ZkPartitionStateMachine.doElectLeaderForPartitions", "controller/PartitionStateMachine.scala"),
)
LEADERSHIP = Rule(
    "a leader epoch starts at the leader's log end offset",
    "A new leader stores its leader epoch with the log end offset at which it starts. Its log becomes the partition's "
    "log.",
    source("broker_sim/replication/partition.py:Partition.make_leader"),
    kafka("Partition.makeLeader", _PARTITION),
    references("KIP-101"),
)
FOLLOWERSHIP = Rule(
    "the higher leader epoch wins",
    "A broker follows the leader that LeaderAndIsr names, unless it already knows a later state.",
    source("broker_sim/replication/partition.py:Partition.make_follower"),
    kafka("Partition.makeFollower", _PARTITION),
)
DIVERGENCE = Rule(
    "a follower truncates where the logs diverge",
    "A fetch request contains the epoch of the follower's last record. If the leader's history differs, its response "
    "contains the diverging epoch, and the follower truncates its log there.",
    source("broker_sim/replication/following.py:truncate_to_divergence"),
    kafka("AbstractFetcherThread.truncateOnFetchResponse", _FETCHER),
    references("KIP-595", "KIP-279", "KIP-101"),
)
CUT_TO_HIGH_WATERMARK = Rule(
    "a follower truncates to its high watermark",
    "Before Kafka 0.11 a new follower truncated its log to its own high watermark. The follower's high watermark "
    "trails the leader's, so the removed records could be committed.",
    source("broker_sim/replication/truncation.py:TruncateToHighWatermark"),
    kafka("AbstractFetcherThread.truncateToHighWatermark", _FETCHER),
    references("KAFKA-1211", "KIP-101"),
)
CUT_TO_EPOCH_END = Rule(
    "a follower truncates to the end of its leader's epoch",
    "Kafka 0.11 to 1.1 asked once where the last epoch ended, and truncated there without checking to which epoch the "
    "response belonged.",
    source("broker_sim/replication/truncation.py:TruncateToEpochEnd"),
    kafka("AbstractFetcherThread.truncateToEpochEndOffsets", _FETCHER),
    references("KIP-101", "KIP-279", "KAFKA-6361"),
)
CUT_TO_LEADER_END = Rule(
    "no follower is longer than its leader",
    "A follower whose log is longer than its leader's log truncates it to the leader's log end offset.",
    source("broker_sim/replication/fetcher.py:ReplicaFetcher._find_offset"),
    kafka("AbstractFetcherThread.fetchOffsetAndTruncate", _FETCHER),
)
CUT_TO_LEADER_START = Rule(
    "records that the leader deleted are no gap",
    "If the leader has deleted all records of a follower, the follower restarts at the leader's log start offset.",
    source("broker_sim/replication/following.py:restart_at"),
    kafka("AbstractFetcherThread.fetchOffsetAndTruncate", _FETCHER),
)
MISSING_AT_START = Rule(
    "a log that ends below its high watermark has lost records",
    "If a broker opens a log that ends before the stored high watermark, the records between them are lost.",
    source("broker_sim/logs/log_manager.py:LogManager._journal_loss"),
    kafka("LogManager.loadLog", "log/LogManager.scala"),
    references("KIP-966"),
)
HIGH_WATERMARK = Rule(
    "a record is committed once the whole ISR has it",
    "The high watermark is the lowest log end offset in the ISR. It does not move while the ISR is smaller than "
    "min.insync.replicas.",
    source("broker_sim/replication/isr_rules.py:IsrRules.commit_offset"),
    kafka("Partition.maybeIncrementLeaderHW", _PARTITION),
    references("KAFKA-15583"),
)
FOLLOWERS_HIGH_WATERMARK = Rule(
    "a follower's high watermark trails",
    "A follower receives the high watermark with its next fetch, so its own is one round trip old.",
    source("broker_sim/replication/following.py:append_fetched"),
    kafka("ReplicaFetcherThread.processPartitionData", "server/ReplicaFetcherThread.scala"),
    references("KIP-101"),
)
MARKER = Rule(
    "a marker ends a transaction in each of its partitions",
    "The transaction coordinator has a marker appended to every partition of a decided transaction. A leader refuses "
    "markers of earlier producer epochs and of earlier coordinators.",
    source("broker_sim/replication/partition.py:Partition.append_marker"),
    kafka("UnifiedLog.appendAsLeader", "log/UnifiedLog.scala"),
    references("KIP-98"),
)
BEGINNING = Rule(
    "a transaction begins only if its coordinator knows it",
    "The first batch of a transaction begins it in its partition. Before that, the leader asks the coordinator whether "
    "the partition is part of the transaction; otherwise a late batch begins one that no marker ends.",
    source("broker_sim/replication/transactional_producing.py:TransactionalProducing.verify"),
    kafka("ReplicaManager.maybeStartTransactionVerificationForPartitions", _REPLICA_MANAGER),
    references("KIP-890"),
)
UNVERIFIED_BEGINNING = Rule(
    "a transaction begins without its coordinator",
    "With transaction.partition.verification.enable=false the first batch begins a transaction, even if it arrives "
    "after the end of its transaction. No marker ends it then: it hangs, and only an administrator can abort it.",
    source("broker_sim/replication/transactional_producing.py:TransactionalProducing.verify"),
    kafka("ReplicaManager.appendRecords", _REPLICA_MANAGER),
    references("KIP-890", "KIP-664"),
)
HELD_BACK = Rule(
    "an open transaction holds read_committed consumers back",
    "Consumers with isolation.level=read_committed read up to the last stable offset, which cannot pass the first "
    "record of an open transaction. The coordinator ends a transaction after its timeout; a transaction that it does "
    "not know has none.",
    source("broker_sim/replication/partition.py:Partition.check_held_stable_offset"),
    kafka("UnifiedLog.fetchLastStableOffsetMetadata", "log/UnifiedLog.scala"),
    references("KIP-98", "KIP-664"),
)
LAST_STABLE_OFFSET = Rule(
    "a read_committed consumer waits for open transactions",
    "The last stable offset is the first offset of all transactions whose markers are missing or not committed, at "
    "most the high watermark.",
    source("broker_sim/logs/partition_log.py:PartitionLog.last_stable_offset"),
    kafka("UnifiedLog.lastStableOffset", "log/UnifiedLog.scala"),
    references("KIP-98"),
)
ACKS_ALL = Rule(
    "acks=all waits for the ISR",
    "With acks=all a record is acknowledged once the high watermark has passed it, which means that every replica of "
    "the ISR has it.",
    source("broker_sim/replication/partition.py:Partition.acks_all_state"),
    kafka("Partition.checkEnoughReplicasReachOffset", _PARTITION),
)
ACKS_ONE = Rule(
    "acks=1 waits for the leader only",
    "With acks=1 a record is acknowledged as soon as the leader has it, even if no other replica does.",
    source("broker_sim/replication/producing.py:Producing._produced"),
    kafka("ReplicaManager.appendRecords", _REPLICA_MANAGER),
)
STALE_CONTROLLER = Rule(
    "a stale controller is rejected",
    "A broker rejects a request with a controller epoch lower than the highest that it knows.",
    source("broker_sim/replication/hosted_partitions.py:HostedPartitions.accept"),
    kafka("ReplicaManager.becomeLeaderOrFollower", _REPLICA_MANAGER),
    references("KAFKA-6082"),
)
STALE_BROKER = Rule(
    "a request for an earlier registration is rejected",
    "A request contains the broker epoch of its receiver. A broker that has registered again since rejects it.",
    source("broker_sim/replication/fencing.py:fences"),
    kafka("KafkaApis.isBrokerEpochStale", "server/KafkaApis.scala"),
    references("KIP-380", "KAFKA-7235"),
)
STALE_LEADER_EPOCH = Rule(
    "a stale leader epoch changes nothing",
    "A broker rejects a request for a partition with a leader epoch that has ended.",
    source("broker_sim/replication/hosted_partitions.py:HostedPartitions.become_leader_or_follower"),
    kafka("ReplicaManager.becomeLeaderOrFollower", _REPLICA_MANAGER),
    references("KIP-320"),
)
REFUSED_ISR = Rule(
    "an ISR proposal needs the newest state",
    "The controller rejects an ISR that comes from a broker other than the leader, or is based on another version of "
    "the state.",
    source("controller/alter_partition.py:_check"),
    kafka("KafkaController.tryProcessAlterPartition", "controller/KafkaController.scala"),
    references("KIP-497"),
)
REFUSED_MEMBER = Rule(
    "only live replicas join an ISR",
    "The controller rejects an ISR with a member that is dead, shutting down, or not the process that the leader saw "
    "catch up.",
    source("controller/alter_partition.py:_check"),
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

HANDSHAKE = Rule(
    "a client without a TLS handshake is not served",
    "A listener with TLS serves a client only after its handshake, with a trusted certificate if ssl.client.auth "
    "requires one.",
    source("broker_sim/secure_kafka_port.py:SecureKafkaPort.handshake_failed"),
    kafka_client("SslTransportLayer.handshake", "common/network/SslTransportLayer.java"),
)
CREDENTIALS = Rule(
    "a client without valid credentials is not served",
    "A listener with SASL serves a client only after it has authenticated. The response to wrong credentials does not "
    "depend on whether the user exists.",
    source("broker_sim/sasl/authenticator.py:SaslAuthenticator.request"),
    kafka_client("SaslServerAuthenticator.authenticate", "common/security/authenticator/SaslServerAuthenticator.java"),
    references("KIP-152", "KIP-368"),
)

BROKER_RULES: Mapping[type[e.Event], tuple[tuple[str, Rule], ...]] = {
    e.AuthenticationFailed: (("mechanism=TLS", HANDSHAKE), ("", CREDENTIALS)),
    e.BrokerRegistered: (("", REGISTRATION),),
    e.BrokerSessionChanged: (("", CLIENT_SESSION),),
    e.IsrProposed: (("cause=lag", LAG), ("cause=caught_up", CAUGHT_UP)),
    e.IsrChanged: (("cause=controller", CONTROLLER_ISR), ("moved", DIRECT_ISR), ("", ALTER_PARTITION)),
    e.LeadershipTaken: (("", LEADERSHIP),),
    e.FollowershipTaken: (("", FOLLOWERSHIP),),
    e.LogTruncated: (*_CUTS[:-1], ("", DIVERGENCE)),
    e.RecordsLost: (*_CUTS, ("", DIVERGENCE)),
    e.HighWatermarkMoved: (("is_leader", HIGH_WATERMARK), ("", FOLLOWERS_HIGH_WATERMARK)),
    e.TransactionBegun: (("is_verified", BEGINNING), ("", UNVERIFIED_BEGINNING)),
    e.MarkerWritten: (("", MARKER),),
    e.LastStableOffsetMoved: (("", LAST_STABLE_OFFSET),),
    e.LastStableOffsetHeld: (("", HELD_BACK),),
    e.LastStableOffsetReleased: (("", LAST_STABLE_OFFSET),),
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
