"""Dictionary of all fuzz targets, keyed by name."""

from __future__ import annotations

from tests.fuzz.choices import Target
from tests.fuzz.client_port_target import PORT_TARGETS
from tests.fuzz.client_targets import CLIENT_TARGETS
from tests.fuzz.file_targets import FILE_TARGETS
from tests.fuzz.group_targets import GROUP_TARGETS
from tests.fuzz.kafka_targets import KAFKA_TARGETS
from tests.fuzz.peer_machine import MACHINE_TARGETS
from tests.fuzz.peer_targets import PEER_TARGETS
from tests.fuzz.service_machine import SERVICE_TARGETS

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
