"""The rules by which Kafka's controller decides."""

from __future__ import annotations

from collections.abc import Mapping

from zabka.journal import events as e
from zabka.journal.rules.rule import Rule, kafka, references, source

_CONTROLLER = "controller/KafkaController.scala"

REIGN = Rule(
    "who creates /controller reigns",
    "The first broker to create the ephemeral /controller reigns, and the same transaction raises /controller_epoch, "
    "so that no two reigns have one epoch.",
    source("zabka/kafka/zk/registration.py:register_controller"),
    kafka("KafkaZkClient.registerControllerAndIncrementControllerEpoch", "zk/KafkaZkClient.scala"),
    references("KAFKA-6082"),
)
LAPSED_REIGN = Rule(
    "no session, no reign",
    "A controller whose session has expired stops deciding, for /controller went with the session.",
    source("controller/controller.py:KafkaController._process_expire"),
    kafka("KafkaController.processExpire", _CONTROLLER),
)
MOVED_REIGN = Rule(
    "a later controller ends the one before",
    "A controller that finds another one's name in /controller, or a higher controller epoch, resigns at once.",
    source("controller/controller.py:KafkaController._look"),
    kafka("KafkaController.maybeResign", _CONTROLLER),
    references("KAFKA-6082", "KAFKA-4447"),
)
FAILED_REIGN = Rule(
    "a reign that fails is given up",
    "A controller that meets what it did not expect resigns, removes /controller, and lets the others try first.",
    source("controller/controller.py:KafkaController._move_away"),
    kafka("KafkaController.triggerControllerMove", _CONTROLLER),
)
LEFT_REIGN = Rule(
    "who stops resigns first",
    "A broker that shuts down gives its reign up before its session ends.",
    source("controller/controller.py:KafkaController.shutdown"),
    kafka("KafkaController.shutdown", _CONTROLLER),
)
BELIEF = Rule(
    "the highest controller epoch counts",
    "A broker believes whoever it has seen at the highest controller epoch; until it has heard of a later one it goes "
    "on believing the one before.",
    source("controller/controller.py:KafkaController.controller_seen"),
    kafka("KafkaController.processControllerChange", _CONTROLLER),
)
FAILOVER = Rule(
    "a new controller reads everything anew",
    "A new controller reads all of the state from the ensemble, tells the brokers who lives, and only then whom to "
    "follow.",
    source("controller/failover.py:fail_over"),
    kafka("KafkaController.onControllerFailover", _CONTROLLER),
    references("KAFKA-4443", "KAFKA-4447"),
)
EVENT_FAILED = Rule(
    "one event after the other",
    "The controller handles its events one by one, and one that fails unexpectedly ends the reign.",
    source("controller/controller.py:KafkaController._process_whatever_comes"),
    kafka("KafkaController.process", _CONTROLLER),
)
EPOCH_CHECK = Rule(
    "every write checks the controller epoch",
    "Each write of a controller goes in one transaction with a check of /controller_epoch's version, so that nothing "
    "is written by a controller that another one has followed.",
    source("zabka/kafka/zk/coordination.py:FencedWriter"),
    kafka("KafkaZkClient.wrapRequestWithControllerEpochCheck", "zk/KafkaZkClient.scala"),
    references("KAFKA-6082"),
)
WRITE_IN_NO_SESSION = Rule(
    "an expired session writes nothing",
    "The ensemble refuses whatever comes in a session that has ended, and the controller's reign is over with it.",
    source("zabka/kafka/zk/coordination.py:FencedWriter._carry_out"),
    kafka("KafkaZkClient.retryRequestsUntilConnected", "zk/KafkaZkClient.scala"),
)
LIVENESS = Rule(
    "who is registered lives",
    "A broker lives for the controller as long as its ephemeral in /brokers/ids; another czxid there is another life.",
    source("controller/broker_changes.py:process_broker_change"),
    kafka("KafkaController.processBrokerChange", _CONTROLLER),
    references("KIP-380", "KAFKA-7235"),
)
CLEAN_ELECTION = Rule(
    "a living member of the ISR leads",
    "Where a leader is gone the first living replica of the assignment that is in sync leads, and the dead leave the "
    "ISR.",
    source("controller/election.py:leader_for_offline"),
    kafka("Election.leaderForOffline", "controller/Election.scala"),
)
UNCLEAN_ELECTION = Rule(
    "an unclean election takes whoever lives",
    "Where nobody in sync lives, and unclean.leader.election.enable or an administrator allows it, the first living "
    "replica leads alone, and what it does not have is lost.",
    source("controller/election.py:leader_for_offline"),
    kafka("Election.leaderForOffline", "controller/Election.scala"),
    references("KIP-704"),
)
NO_LEADER = Rule(
    "the last of the ISR is waited for",
    "Where the last member of the ISR dies the partition has no leader, and that member stays in the ISR, for it alone "
    "has everything.",
    source("controller/replica_state_machine.py:isr_keeping_the_last"),
    kafka("ZkReplicaStateMachine.doRemoveReplicasFromIsr", "controller/ReplicaStateMachine.scala"),
    references("KAFKA-708"),
)
REPLICA_OFFLINE = Rule(
    "the dead leave the ISR",
    "The controller takes a dead broker out of every ISR that holds it, and raises the leader epoch with it.",
    source("controller/replica_state_machine.py:ReplicaStateMachine._write_without"),
    kafka("ZkReplicaStateMachine.doRemoveReplicasFromIsr", "controller/ReplicaStateMachine.scala"),
)
PREFERRED_ELECTION = Rule(
    "the preferred leader comes first in the assignment",
    "The preferred leader is the first replica of the assignment; it leads again if it lives and is in sync, and not "
    "otherwise.",
    source("controller/election.py:leader_for_preferred"),
    kafka("Election.leaderForPreferredReplica", "controller/Election.scala"),
    references("KIP-460"),
)
REASSIGNED_LEADER = Rule(
    "who leads stays in the assignment",
    "When replicas move, a leader that does not stay, or is dead, gives way to the first living one of the target that "
    "is in sync; every step raises the leader epoch.",
    source("controller/election.py:leader_for_reassignment"),
    kafka("Election.leaderForReassign", "controller/Election.scala"),
    references("KIP-455"),
)
CONTROLLED_SHUTDOWN = Rule(
    "who is about to stop leads nothing",
    "A broker that asks to shut down hands each partition to the first replica that is in sync and stays, and leaves "
    "the ISR.",
    source("controller/election.py:leader_for_controlled_shutdown"),
    kafka("Election.leaderForControlledShutdown", "controller/Election.scala"),
)
FIRST_LEADER = Rule(
    "a new partition begins with all who live",
    "The first living replica of a new partition leads it, and every living one is in sync.",
    source("controller/partition_state_machine.py:PartitionStateMachine._initialize"),
    kafka("ZkPartitionStateMachine.initializeLeaderAndIsrForPartitions", "controller/PartitionStateMachine.scala"),
)
BOUNCED = Rule(
    "another life is another broker",
    "A new controller that finds a broker registered later than the state was written takes it for another process, "
    "and raises the leader epoch.",
    source("controller/unseen_bounces.py:fence_bounced"),
    kafka("KafkaController.processBrokerChange", _CONTROLLER),
    references("KIP-380", "KAFKA-7235"),
)
DOUBTFUL_RETURN = Rule(
    "who may have lost its log gives way",
    "A broker whose log was not whole when it came back gives way to whoever has all that was committed.",
    source("controller/broker_changes.py:give_way"),
    kafka("KafkaController.onBrokerStartup", _CONTROLLER),
    references("KIP-966"),
)
ASSIGNMENT = Rule(
    "a reassignment is written down before it begins",
    "The controller first writes which replicas are added and removed, so that any later controller goes on where this "
    "one stops.",
    source("controller/reassignments.py:trigger"),
    kafka("KafkaController.onPartitionReassignment", _CONTROLLER),
    references("KIP-455"),
)
ASSIGNMENT_COMPLETE = Rule(
    "a reassignment ends when the target is in sync",
    "Only once every replica of the target is in the ISR do the others go, and the assignment is the target alone.",
    source("controller/reassignments.py:_is_complete"),
    kafka("KafkaController.isReassignmentComplete", _CONTROLLER),
    references("KIP-455"),
)
NEW_TOPIC = Rule(
    "a topic is its znode",
    "The controller's watch on /brokers/topics tells it of a new topic, whose partitions it then brings online.",
    source("controller/topic_changes.py:process_topic_change"),
    kafka("KafkaController.processTopicChange", _CONTROLLER),
)
DELETED_TOPIC = Rule(
    "a topic goes when all its replicas have",
    "A topic's znodes are removed once every replica has said that it deleted its log.",
    source("controller/topic_deletion.py:TopicDeletion"),
    kafka("TopicDeletionManager", "controller/TopicDeletionManager.scala"),
)

CONTROLLER_RULES: Mapping[type[e.Event], tuple[tuple[str, Rule], ...]] = {
    e.ControllerElected: (("", REIGN),),
    e.ControllerReady: (("", FAILOVER),),
    e.ControllerPropagated: (("", FAILOVER),),
    e.ControllerResigned: (
        ("reason=session_expired", LAPSED_REIGN),
        ("reason=controller_moved", MOVED_REIGN),
        ("reason=illegal_state", FAILED_REIGN),
        ("reason=shutdown", LEFT_REIGN),
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
