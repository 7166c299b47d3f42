"""`meta.properties` in a log directory. It contains the ids of the cluster and the broker that own the logs."""

from __future__ import annotations

import re

from zabka.broker_sim.ports import LogDirectory
from zabka.ensemble.properties import BadProperties, read_properties, trimmed

FILE = "meta.properties"
VERSION = 0
"""Version of the file in ZooKeeper mode. A file without a version counts as this version (MetaPropertiesVersion.V0)."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")


class InconsistentMetaProperties(Exception):
    """The log directory belongs to another cluster or broker, or its meta.properties has another version.

    The message is for the user.
    """


def stored_broker_id(directory: LogDirectory) -> int | None:
    """Return the id of the broker that owns the log directory, or None if meta.properties cannot be read."""
    text = directory.read_text("", FILE)
    try:
        stored = _read(text).get("broker.id", "")
    except BadProperties:
        return None
    return int(stored) if stored.isdecimal() and stored.isascii() else None


def claim_log_directory(directory: LogDirectory, cluster_id: str, broker_id: int) -> None:
    """Check that the log directory belongs to this cluster and broker. Claim it if it has no owner.

    Raises InconsistentMetaProperties.
    """
    text = directory.read_text("", FILE)
    try:
        stored = _read(text)
    except BadProperties as bad:
        raise InconsistentMetaProperties(f"{FILE} is not a Java properties file: {bad}") from None
    _check_version(stored.get("version", str(VERSION)))
    stored_cluster, stored_broker = stored.get("cluster.id"), stored.get("broker.id")
    if stored_cluster is not None and stored_cluster != cluster_id:
        raise InconsistentMetaProperties(
            f"The Cluster ID {cluster_id} doesn't match stored clusterId {stored_cluster} in {FILE}. The broker is "
            "trying to join the wrong cluster. Configured zookeeper.connect may be wrong."
        )
    if stored_broker is not None and stored_broker != str(broker_id):
        raise InconsistentMetaProperties(
            f"Configured broker.id {broker_id} doesn't match stored broker.id {stored_broker} in {FILE}. If you moved "
            "your data, make sure your configured broker.id matches. If you intend to create a new broker, you should "
            "remove all data in your data directories (log.dirs)."
        )
    if stored_cluster is None or stored_broker is None:
        directory.write_text("", FILE, f"#\ncluster.id={cluster_id}\nversion={VERSION}\nbroker.id={broker_id}\n")


def _check_version(stored: str) -> None:
    """Raise InconsistentMetaProperties if meta.properties has another version.

    Kafka also reads the KRaft versions, 1 and 2, which contain the broker's id as node.id
    (MetaPropertiesVersion.fromNumberString).
    """
    if _INTEGER.fullmatch(stored) is None:
        raise InconsistentMetaProperties(f"Invalid {FILE} version string '{stored}'")
    if int(stored) != VERSION:
        raise InconsistentMetaProperties(
            f"Unknown {FILE} version number {int(stored)}: this broker reads version {VERSION}, that of ZooKeeper "
            "mode. Start it with the software that wrote the file, or with empty log directories (log.dirs)."
        )


def _read(text: str | None) -> dict[str, str]:
    return trimmed(read_properties(text)) if text is not None else {}
