"""`meta.properties` in the log directory: which cluster and which broker its logs belong to."""

from __future__ import annotations

from zabka.broker_sim.ports import LogDirectory
from zabka.ensemble.properties import BadProperties, read_properties, trimmed

FILE = "meta.properties"


class InconsistentMetaProperties(Exception):
    """The log directory belongs to another cluster or another broker; the text is fit for the user."""


def stored_broker_id(directory: LogDirectory) -> int | None:
    """The id of the broker that the log directory belongs to; None while it is nobody's, or says nothing readable."""
    text = directory.read_text("", FILE)
    try:
        stored = _read(text).get("broker.id", "")
    except BadProperties:
        return None
    return int(stored) if stored.isdecimal() and stored.isascii() else None


def claim_log_directory(directory: LogDirectory, cluster_id: str, broker_id: int) -> None:
    """Check whose the log directory is; make it ours where it is nobody's.  Raises InconsistentMetaProperties."""
    text = directory.read_text("", FILE)
    try:
        stored = _read(text)
    except BadProperties as bad:
        raise InconsistentMetaProperties(f"{FILE} is not a Java properties file: {bad}") from None
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
        directory.write_text("", FILE, f"#\ncluster.id={cluster_id}\nversion=0\nbroker.id={broker_id}\n")


def _read(text: str | None) -> dict[str, str]:
    return trimmed(read_properties(text)) if text is not None else {}
