"""Kafka's znodes: their paths and their contents (kafka.zk.ZkData).

There is one module per kind of znode. This package re-exports all their names, so that callers write
`znodes.decode_topic`. Encoders write the fields in the order of Kafka's sources, and the entries of a map in numeric
order or in the given order. Decoders accept the formats of all Kafka versions, and return None for invalid data,
because znodes are untrusted input.

All packages above `kafka` may import it. To learn the code, read `paths` first, then `topics` and `partition_state`.
"""

from __future__ import annotations

from zabka.kafka.zk.znodes.acls import ACL_CHANGE_PREFIX as ACL_CHANGE_PREFIX
from zabka.kafka.zk.znodes.acls import ACL_PATHS as ACL_PATHS
from zabka.kafka.zk.znodes.acls import ACL_ROOTS as ACL_ROOTS
from zabka.kafka.zk.znodes.acls import acl_changes_path as acl_changes_path
from zabka.kafka.zk.znodes.acls import acl_path as acl_path
from zabka.kafka.zk.znodes.acls import decode_acl_change as decode_acl_change
from zabka.kafka.zk.znodes.acls import decode_acls as decode_acls
from zabka.kafka.zk.znodes.acls import encode_acl_change as encode_acl_change
from zabka.kafka.zk.znodes.acls import encode_acls as encode_acls
from zabka.kafka.zk.znodes.admin_requests import decode_partition_set as decode_partition_set
from zabka.kafka.zk.znodes.admin_requests import decode_reassignments as decode_reassignments
from zabka.kafka.zk.znodes.admin_requests import encode_partition_set as encode_partition_set
from zabka.kafka.zk.znodes.admin_requests import encode_reassignments as encode_reassignments
from zabka.kafka.zk.znodes.brokers import LOG_INTACT as LOG_INTACT
from zabka.kafka.zk.znodes.brokers import BrokerEndpoint as BrokerEndpoint
from zabka.kafka.zk.znodes.brokers import BrokerInfo as BrokerInfo
from zabka.kafka.zk.znodes.brokers import decode_broker as decode_broker
from zabka.kafka.zk.znodes.brokers import encode_broker as encode_broker
from zabka.kafka.zk.znodes.cluster import decode_cluster_id as decode_cluster_id
from zabka.kafka.zk.znodes.cluster import decode_log_dir_event as decode_log_dir_event
from zabka.kafka.zk.znodes.cluster import decode_producer_id_block as decode_producer_id_block
from zabka.kafka.zk.znodes.cluster import encode_cluster_id as encode_cluster_id
from zabka.kafka.zk.znodes.cluster import encode_log_dir_event as encode_log_dir_event
from zabka.kafka.zk.znodes.cluster import encode_producer_id_block as encode_producer_id_block
from zabka.kafka.zk.znodes.configs import decode_config as decode_config
from zabka.kafka.zk.znodes.configs import decode_config_change as decode_config_change
from zabka.kafka.zk.znodes.configs import encode_config as encode_config
from zabka.kafka.zk.znodes.configs import encode_config_change as encode_config_change
from zabka.kafka.zk.znodes.controller import decode_controller as decode_controller
from zabka.kafka.zk.znodes.controller import decode_controller_epoch as decode_controller_epoch
from zabka.kafka.zk.znodes.controller import encode_controller as encode_controller
from zabka.kafka.zk.znodes.controller import encode_controller_epoch as encode_controller_epoch
from zabka.kafka.zk.znodes.json_content import INT32_MAX as INT32_MAX
from zabka.kafka.zk.znodes.json_content import ZNODE_BYTES_MAX as ZNODE_BYTES_MAX
from zabka.kafka.zk.znodes.json_content import decode as decode
from zabka.kafka.zk.znodes.json_content import encode as encode
from zabka.kafka.zk.znodes.json_content import is_tellable as is_tellable
from zabka.kafka.zk.znodes.json_content import plain_number as plain_number
from zabka.kafka.zk.znodes.partition_state import LeaderAndIsr as LeaderAndIsr
from zabka.kafka.zk.znodes.partition_state import decode_partition_state as decode_partition_state
from zabka.kafka.zk.znodes.partition_state import encode_partition_state as encode_partition_state
from zabka.kafka.zk.znodes.paths import BROKER_IDS as BROKER_IDS
from zabka.kafka.zk.znodes.paths import BROKER_SEQUENCE_ID as BROKER_SEQUENCE_ID
from zabka.kafka.zk.znodes.paths import BROKER_TOPICS as BROKER_TOPICS
from zabka.kafka.zk.znodes.paths import CLUSTER_ID as CLUSTER_ID
from zabka.kafka.zk.znodes.paths import CONFIG_CHANGES as CONFIG_CHANGES
from zabka.kafka.zk.znodes.paths import CONFIG_KINDS as CONFIG_KINDS
from zabka.kafka.zk.znodes.paths import CONTROLLER as CONTROLLER
from zabka.kafka.zk.znodes.paths import CONTROLLER_EPOCH as CONTROLLER_EPOCH
from zabka.kafka.zk.znodes.paths import DEFAULT_ENTITY as DEFAULT_ENTITY
from zabka.kafka.zk.znodes.paths import DELETE_TOPICS as DELETE_TOPICS
from zabka.kafka.zk.znodes.paths import FEATURE as FEATURE
from zabka.kafka.zk.znodes.paths import ISR_CHANGE_NOTIFICATION as ISR_CHANGE_NOTIFICATION
from zabka.kafka.zk.znodes.paths import LATEST_PRODUCER_ID_BLOCK as LATEST_PRODUCER_ID_BLOCK
from zabka.kafka.zk.znodes.paths import LOG_DIR_EVENT_NOTIFICATION as LOG_DIR_EVENT_NOTIFICATION
from zabka.kafka.zk.znodes.paths import PERSISTENT_PATHS as PERSISTENT_PATHS
from zabka.kafka.zk.znodes.paths import PREFERRED_REPLICA_ELECTION as PREFERRED_REPLICA_ELECTION
from zabka.kafka.zk.znodes.paths import REASSIGN_PARTITIONS as REASSIGN_PARTITIONS
from zabka.kafka.zk.znodes.paths import broker_path as broker_path
from zabka.kafka.zk.znodes.paths import config_path as config_path
from zabka.kafka.zk.znodes.paths import delete_topic_path as delete_topic_path
from zabka.kafka.zk.znodes.paths import partition_path as partition_path
from zabka.kafka.zk.znodes.paths import partition_state_path as partition_state_path
from zabka.kafka.zk.znodes.paths import partitions_path as partitions_path
from zabka.kafka.zk.znodes.paths import topic_path as topic_path
from zabka.kafka.zk.znodes.topics import ReplicaAssignment as ReplicaAssignment
from zabka.kafka.zk.znodes.topics import TopicAssignment as TopicAssignment
from zabka.kafka.zk.znodes.topics import decode_topic as decode_topic
from zabka.kafka.zk.znodes.topics import encode_topic as encode_topic
