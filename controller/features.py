"""/feature: the finalized features of the cluster, and which brokers are compatible with them (KIP-584).

Sources: KafkaController.enableFeatureVersioning, partitionOnFeatureCompatibility; kafka.zk.FeatureZNode. A zabka broker
supports no feature and therefore finalizes none. Other brokers may have finalized some.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zabka.controller.term import ControllerTerm
from zabka.ensemble.client.service import Create, Op, SetData
from zabka.ensemble.errors import ErrorCode, error_for
from zabka.kafka.zk import znodes

_ENABLED = 1


def encode_features(finalized: Mapping[str, int]) -> bytes:
    """Encode the content of /feature, with feature versioning enabled (FeatureZNode, version 2)."""
    rows = {name: {"max_version_level": level} for name, level in finalized.items()}
    return znodes.encode({"version": 2, "status": _ENABLED, "features": rows})


def decode_features(data: bytes | None) -> dict[str, int] | None:
    """Decode the finalized level of each feature, from versions 1 and 2.

    Return an empty mapping while feature versioning is disabled, and None if the data cannot be read.
    """
    value = znodes.decode(data)
    if value is None or value.get("version") not in (1, 2) or value.get("status") not in (0, _ENABLED):
        return None
    listed: Any = value.get("features")
    if value["status"] != _ENABLED:
        return {}
    if not isinstance(listed, dict):
        return None
    found: dict[str, int] = {}
    for name, row in listed.items():
        level = row.get("max_version_level") if isinstance(row, dict) else None
        if not isinstance(level, int):
            return None
        found[name] = level
    return found


async def set_up_features(term: ControllerTerm) -> None:
    """Create /feature, or enable feature versioning and convert the znode to the current format.

    Features that are already finalized are not changed.
    """
    service, path = term.zk.service, znodes.FEATURE
    outcome = await term.zk.attempt(lambda: service.get(path))
    if outcome.value is None:
        if outcome.error is not ErrorCode.NO_NODE:
            raise error_for(outcome.error, path)
        op: Op = Create(path, encode_features({}))
    else:
        finalized = decode_features(outcome.value[0])
        if finalized is None:
            term.report("Startup", f"{path} is not readable; left as it was")
            return
        term.finalized_features = finalized
        if outcome.value[0] == encode_features(finalized):
            return
        op = SetData(path, encode_features(finalized))
    [written] = await term.writer.write([op])
    if written.error not in (ErrorCode.OK, ErrorCode.NODE_EXISTS):
        raise error_for(written.error, path)
