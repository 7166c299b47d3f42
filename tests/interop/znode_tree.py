"""The znodes of a Kafka cluster, in a form in which two clusters with the same history can be compared by path."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

VARYING = frozenset({"timestamp", "topic_id", "id", "port", "host", "endpoints", "broker"})
"""JSON fields whose values differ between clusters, so that only the types of the values are compared."""
NOT_KAFKAS = "/zookeeper"
OUR_FEATURES = "zabka."
"""Prefix of features that only our brokers register. Kafka's brokers register none."""
PLACED_AT_RANDOM = frozenset({"plain", "__consumer_offsets"})
"""Topics whose replicas the cluster assigns itself, starting at a random broker."""


class Znode(NamedTuple):
    """A znode without the values that always differ between two clusters."""

    content: Any
    ephemeral: bool
    writes: int
    """Version of the znode: how often it was written after its creation."""
    acl: tuple[tuple[str, str, int], ...]


def read_tree(zk: KazooClient) -> dict[str, Znode]:
    """Return all znodes except ZooKeeper's own, keyed by path."""
    found: dict[str, Znode] = {}
    left = ["/"]
    while left:
        path = left.pop()
        try:
            data, stat = zk.get(path)
            acl = tuple((each.id.scheme, each.id.id, each.perms) for each in zk.get_acls(path)[0])
            children = zk.get_children(path)
        except NoNodeError:
            continue
        content = content_of(data)
        if PLACED_AT_RANDOM.intersection(path.split("/")):
            content = _anywhere(content)
        found[path] = Znode(content, stat.ephemeralOwner != 0, stat.version, acl)
        left += [f"{path.rstrip('/')}/{child}" for child in children if f"/{child}" != NOT_KAFKAS]
    return dict(sorted(found.items()))


def content_of(data: bytes | None) -> Any:
    """Return the data of a znode. JSON is parsed, and values that differ between clusters are replaced by their
    types.
    """
    if data is None:
        return None
    try:
        return _settled(json.loads(data))
    except ValueError:
        return data.decode()


def _settled(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        ours = [key for key in value if name == "features" and key.startswith(OUR_FEATURES)]
        return {key: _settled(each, key) for key, each in value.items() if key not in ours}
    if isinstance(value, list):
        return [_settled(each, name) for each in value]
    return type(value).__name__ if name in VARYING else value


def _anywhere(content: Any) -> Any:
    """Return the content of a topic znode without the brokers of its replicas."""
    if isinstance(content, dict):
        return {name: _anywhere(each) for name, each in content.items() if name != "leader"}
    return sorted(content) if isinstance(content, list) else content


def differences(ours: dict[str, Znode], theirs: dict[str, Znode]) -> list[str]:
    """Return the differences of two trees, one per line."""
    lines = [f"only ours has {path}: {ours[path]}" for path in ours if path not in theirs]
    lines += [f"only Kafka has {path}: {theirs[path]}" for path in theirs if path not in ours]
    for path in ours.keys() & theirs.keys():
        if ours[path] != theirs[path]:
            lines.append(f"{path}\n  ours  {ours[path]}\n  Kafka {theirs[path]}")
    return sorted(lines)
