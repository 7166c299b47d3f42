"""The rules of Kafka's controller."""

from __future__ import annotations

from collections.abc import Mapping

from zabka.journal import events as e
from zabka.journal.rules.rule import Rule, kafka, references, source

_CONTROLLER = "controller/KafkaController.scala"

TERM = Rule(
    "the broker that creates /controller is controller",
    "The first broker to create the ephemeral /controller becomes controller. The same transaction raises "
    "/controller_epoch, so that no two controllers have the same epoch.",
    source("zabka/kafka/zk/registration.py:register_controller"),
    kafka("KafkaZkClient.registerControllerAndIncrementControllerEpoch", "zk/KafkaZkClient.scala"),
    references("KAFKA-6082"),
)
LAPSED_TERM = Rule(
    "no session, no controller",
    "A controller whose session has expired stops deciding, because /controller was deleted with the session.",
    source("controller/controller.py:KafkaController._process_expire"),
    kafka("KafkaController.processExpire", _CONTROLLER),
)
MOVED_TERM = Rule(
    "a later controller replaces the earlier one",
    "A controller that finds another broker in /controller, or a higher controller epoch, resigns at once.",
    source("controller/controller.py:KafkaController._look"),
    kafka("KafkaController.maybeResign", _CONTROLLER),
    references("KAFKA-6082", "KAFKA-4447"),
)
FAILED_TERM = Rule(
    "a controller that fails resigns",
    "A controller that meets an unexpected error resigns, deletes /controller, and lets the other brokers try first.",
    source("controller/controller.py:KafkaController._move_away"),
    kafka("KafkaController.triggerControllerMove", _CONTROLLER),
)
LEFT_TERM = Rule(
    "a controller resigns before it shuts down",
    "A controller that shuts down resigns before its session ends.",
    source("controller/controller.py:KafkaController.shutdown"),
    kafka("KafkaController.shutdown", _CONTROLLER),
)
BELIEF = Rule(
    "the highest controller epoch wins",
    "A broker accepts the controller with the highest controller epoch that it has seen. Until it sees a later one it "
    "keeps the earlier one.",
    source("controller/controller.py:KafkaController.controller_seen"),
    kafka("KafkaController.processControllerChange", _CONTROLLER),
)
FAILOVER = Rule(
    "a new controller reads the whole state",
    "A new controller reads all of the state from ZooKeeper, sends the live brokers to every broker, and only then "
    "sends the leaders.",
    source("controller/failover.py:fail_over"),
    kafka("KafkaController.onControllerFailover", _CONTROLLER),
    references("KAFKA-4443", "KAFKA-4447"),
)
EVENT_FAILED = Rule(
    "one event at a time",
    "The controller handles its events one by one. It resigns if one of them fails unexpectedly.",
    source("controller/controller.py:KafkaController._process_safely"),
    kafka("KafkaController.process", _CONTROLLER),
)
EPOCH_CHECK = Rule(
    "every write checks the controller epoch",
    "Each write of a controller is one transaction with a version check of /controller_epoch, so that a replaced "
    "controller can write nothing.",
    source("zabka/kafka/zk/coordination.py:FencedWriter"),
    kafka("KafkaZkClient.wrapRequestWithControllerEpochCheck", "zk/KafkaZkClient.scala"),
    references("KAFKA-6082"),
)
WRITE_IN_NO_SESSION = Rule(
    "an expired session writes nothing",
    "The ensemble rejects every request of an expired session, and the controller's term ends with its session.",
    source("zabka/kafka/zk/coordination.py:FencedWriter._carry_out"),
    kafka("KafkaZkClient.retryRequestsUntilConnected", "zk/KafkaZkClient.scala"),
)
LIVENESS = Rule(
    "a registered broker is alive",
    "The controller considers a broker alive as long as its ephemeral exists in /brokers/ids. A different czxid means "
    "that the broker has registered again.",
    source("controller/broker_changes.py:process_broker_change"),
    kafka("KafkaController.processBrokerChange", _CONTROLLER),
    references("KIP-380", "KAFKA-7235"),
)
CLEAN_ELECTION = Rule(
    "a live member of the ISR becomes leader",
    "If a partition has no live leader, the first live replica of the assignment that is in the ISR becomes leader, "
    "and dead replicas leave the ISR.",
    source("controller/election.py:leader_for_offline"),
    kafka("Election.leaderForOffline", "controller/Election.scala"),
)
UNCLEAN_ELECTION = Rule(
    "an unclean election takes any live replica",
    "If no replica of the ISR is alive, and unclean.leader.election.enable or an administrator allows it, the first "
    "live replica becomes leader and the only member of the ISR. Records that it lacks are lost.",
    source("controller/election.py:leader_for_offline"),
    kafka("Election.leaderForOffline", "controller/Election.scala"),
    references("KIP-704"),
)
NO_LEADER = Rule(
    "the last replica of the ISR stays in it",
    "If the last member of the ISR dies the partition has no leader. That replica stays in the ISR, because only it "
    "has every committed record.",
    source("controller/replica_state_machine.py:isr_keeping_the_last"),
    kafka("ZkReplicaStateMachine.doRemoveReplicasFromIsr", "controller/ReplicaStateMachine.scala"),
    references("KAFKA-708"),
)
REPLICA_OFFLINE = Rule(
    "dead brokers leave the ISR",
    "The controller removes a dead broker from every ISR that contains it, and raises the leader epoch.",
    source("controller/replica_state_machine.py:ReplicaStateMachine._write_without"),
    kafka("ZkReplicaStateMachine.doRemoveReplicasFromIsr", "controller/ReplicaStateMachine.scala"),
)
PREFERRED_ELECTION = Rule(
    "the preferred leader is the first replica",
    "The preferred leader is the first replica of the assignment. It is elected if it is alive and in the ISR.",
    source("controller/election.py:leader_for_preferred"),
    kafka("Election.leaderForPreferredReplica", "controller/Election.scala"),
    references("KIP-460"),
)
REASSIGNED_LEADER = Rule(
    "the leader must be in the target assignment",
    "If a reassignment removes the leader, or the leader is dead, the first live replica of the target that is in the "
    "ISR becomes leader. Every step raises the leader epoch.",
    source("controller/election.py:leader_for_reassignment"),
    kafka("Election.leaderForReassign", "controller/Election.scala"),
    references("KIP-455"),
)
CONTROLLED_SHUTDOWN = Rule(
    "a broker hands its partitions over before it stops",
    "A broker that requests a controlled shutdown hands each partition to the first replica that is in the ISR and "
    "keeps running, and leaves the ISR.",
    source("controller/election.py:leader_for_controlled_shutdown"),
    kafka("Election.leaderForControlledShutdown", "controller/Election.scala"),
)
FIRST_LEADER = Rule(
    "a new partition starts with all live replicas",
    "The first live replica of a new partition becomes leader, and every live replica is in the ISR.",
    source("controller/partition_state_machine.py:PartitionStateMachine._initialize"),
    kafka("ZkPartitionStateMachine.initializeLeaderAndIsrForPartitions", "controller/PartitionStateMachine.scala"),
)
BOUNCED = Rule(
    "a restarted broker is a different broker",
    "If a broker registered later than the partition state was written, a new controller treats it as another process "
    "and raises the leader epoch.",
    source("controller/unseen_bounces.py:fence_bounced"),
    kafka("KafkaController.processBrokerChange", _CONTROLLER),
    references("KIP-380", "KAFKA-7235"),
)
DOUBTFUL_RETURN = Rule(
    "a leader with a damaged log is replaced",
    "A broker whose log was not intact after its restart hands its leadership to a replica that has all committed "
    "records.",
    source("controller/broker_changes.py:give_way"),
    kafka("KafkaController.onBrokerStartup", _CONTROLLER),
    references("KIP-966"),
)
ASSIGNMENT = Rule(
    "a reassignment is stored before it starts",
    "The controller first writes which replicas are added and removed, so that a later controller can continue the "
    "reassignment.",
    source("controller/reassignments.py:trigger"),
    kafka("KafkaController.onPartitionReassignment", _CONTROLLER),
    references("KIP-455"),
)
ASSIGNMENT_COMPLETE = Rule(
    "a reassignment ends when the target is in sync",
    "Once every replica of the target is in the ISR, the controller removes the other replicas, and the assignment "
    "equals the target.",
    source("controller/reassignments.py:_is_complete"),
    kafka("KafkaController.isReassignmentComplete", _CONTROLLER),
    references("KIP-455"),
)
NEW_TOPIC = Rule(
    "a topic is created by its znode",
    "The controller's watch on /brokers/topics fires for a new topic, and the controller brings its partitions online.",
    source("controller/topic_changes.py:process_topic_change"),
    kafka("KafkaController.processTopicChange", _CONTROLLER),
)
DELETED_TOPIC = Rule(
    "a topic is deleted after its replicas",
    "A topic's znodes are deleted once every replica has reported that its log is deleted.",
    source("controller/topic_deletion.py:TopicDeletion"),
    kafka("TopicDeletionManager", "controller/TopicDeletionManager.scala"),
)

CONTROLLER_RULES: Mapping[type[e.Event], tuple[tuple[str, Rule], ...]] = {
    e.ControllerElected: (("", TERM),),
    e.ControllerReady: (("", FAILOVER),),
    e.ControllerPropagated: (("", FAILOVER),),
    e.ControllerResigned: (
        ("reason=session_expired", LAPSED_TERM),
        ("reason=controller_moved", MOVED_TERM),
        ("reason=illegal_state", FAILED_TERM),
        ("reason=shutdown", LEFT_TERM),
    ),
    e.ControllerEventFailed: (("", EVENT_FAILED),),
    e.ControllerBelieved: (("", BELIEF),),
    e.WriteFenced: (("reason=controller_epoch", EPOCH_CHECK), ("reason=session_expired", WRITE_IN_NO_SESSION)),
    e.BrokerLivenessChanged: (("", LIVENESS),),
    e.LeaderElected: (
        ("unclean", UNCLEAN_ELECTION),
        ("cause=replica_offline&leader=-1", NO_LEADER),
        ("cause=controlled_shutdown&leader=-1", NO_LEADER),
        ("cause=replica_offline", REPLICA_OFFLINE),
        ("cause=offline", CLEAN_ELECTION),
        ("cause=preferred", PREFERRED_ELECTION),
        ("cause=reassignment", REASSIGNED_LEADER),
        ("cause=controlled_shutdown", CONTROLLED_SHUTDOWN),
        ("cause=new_topic", FIRST_LEADER),
        ("cause=bounced", BOUNCED),
        ("cause=doubtful_return", DOUBTFUL_RETURN),
    ),
    e.AssignmentChanged: (("adding", ASSIGNMENT), ("removing", ASSIGNMENT), ("", ASSIGNMENT_COMPLETE)),
    e.TopicCreated: (("", NEW_TOPIC),),
    e.TopicDeleted: (("", DELETED_TOPIC),),
}
