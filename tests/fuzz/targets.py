"""Every target by its name."""

from __future__ import annotations

from choices import Target
from client_port_target import PORT_TARGETS
from client_targets import CLIENT_TARGETS
from file_targets import FILE_TARGETS
from group_targets import GROUP_TARGETS
from kafka_targets import KAFKA_TARGETS
from peer_machine import MACHINE_TARGETS
from peer_targets import PEER_TARGETS
from service_machine import SERVICE_TARGETS

TARGETS: dict[str, Target] = {
    **CLIENT_TARGETS,
    **PORT_TARGETS,
    **PEER_TARGETS,
    **FILE_TARGETS,
    **SERVICE_TARGETS,
    **MACHINE_TARGETS,
    **KAFKA_TARGETS,
    **GROUP_TARGETS,
}
