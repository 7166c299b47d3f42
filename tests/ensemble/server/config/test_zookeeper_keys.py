"""All keys of zoo.cfg at their limits: the same value as in ZooKeeper 3.9.5, or an error if ZooKeeper refuses to
start.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.reference.zookeeper_keys import asked_keys
from tests.ensemble.server.config.java_outcomes import DIFFERENT, JAVA, WITHOUT_LIMITS
from tests.ensemble.server.config.zookeeper_keys import KEYS, Key, zoo_cfg
from zabka.ensemble.server.config.config_values import ConfigError
from zabka.ensemble.server.config.zoo_cfg import ACCEPTED, parse

CASES = [pytest.param(key, text, id=f"{key.name}={text}") for key in KEYS for text in key.texts]
WARNED = (
    "autopurge.snapRetainCount=1", "snapCount=1", "snapCount=x", "globalOutstandingLimit=x", "commitLogCount=0",
    "commitLogCount=0x10", "maxCnxns=-1", "readonlymode.enabled=yes", "preAllocSize=x", "largeRequestMaxBytes=0",
    "largeRequestThreshold=0", "snapshotSizeFactor=1.5", "snapshot.compression.method=lz4", "skipACL=true",
    "leaderServes=maybe", "DigestAuthenticationProvider.enabled=yes", "znode.container.maxPerMinute=0",
    "connection_throttle_global_session_weight=0", "extendedTypesEnabled=1", "enforceQuota=yes",
)  # fmt: skip


def _shown(value: object) -> str:
    """Return the value in the form in which Java prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _outcome(key: Key, text: str, directory: Path) -> tuple[str | None, tuple[str, ...]]:
    """Return the value that our server reads for a key (None if it rejects the text), and its warnings."""
    (directory / "myid").write_text("1\n")
    try:
        config = parse(zoo_cfg(key, text, str(directory), for_java=False))
    except ConfigError as bad:
        assert "\n" not in str(bad)
        return None, ()
    return _shown(key.ours(config)), config.warnings


@pytest.mark.parametrize(("key", "text"), CASES)
def test_each_zoo_cfg_value_is_handled_as_in_zookeeper(tmp_path: Path, key: Key, text: str) -> None:
    java = JAVA[key.name][text]
    expected = None if java is None else _shown(key.means(java))
    if (key.name, text) in DIFFERENT:
        ours, why = DIFFERENT[key.name, text]
        assert ours != expected and why, "the outcomes are equal: remove the entry"
        expected = ours
    assert _outcome(key, text, tmp_path)[0] == expected


def test_zookeeper_outcome_is_known_for_every_key_and_value() -> None:
    assert {key.name: set(key.texts) for key in KEYS} == {name: set(outcomes) for name, outcomes in JAVA.items()}
    assert DIFFERENT.keys() <= {(key.name, text) for key in KEYS for text in key.texts}


def test_every_zookeeper_key_is_compared_or_excluded() -> None:
    zookeepers = {name for name in (*asked_keys(), *ACCEPTED) if not name.startswith("zabka.")}
    assert zookeepers - {key.name for key in KEYS} == set(WITHOUT_LIMITS)


@pytest.mark.parametrize("line", WARNED)
def test_replaced_zoo_cfg_value_is_logged(tmp_path: Path, line: str) -> None:
    name, _, text = line.partition("=")
    key = next(key for key in KEYS if key.name == name)
    found, warnings = _outcome(key, text, tmp_path)
    assert found is not None
    assert [warning for warning in warnings if warning.startswith(line)] != []
