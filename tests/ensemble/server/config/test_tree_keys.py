"""The keys of zoo.cfg for container znodes, TTL znodes and quotas."""

from pathlib import Path

import pytest

from zabka.ensemble.server.config.zoo_cfg import ConfigError, parse
from zabka.ensemble.tree_rules import TreeRules


def rules(directory: Path, *lines: str) -> TreeRules:
    return parse("\n".join([f"dataDir={directory}", "clientPort=2181", *lines])).tree


def test_tree_defaults_equal_those_of_zookeeper(tmp_path: Path) -> None:
    assert rules(tmp_path) == TreeRules(False, 60_000, 10_000, 0, False)


def test_every_tree_key_of_zoo_cfg_is_read(tmp_path: Path) -> None:
    lines = (
        "extendedTypesEnabled=true", "znode.container.checkIntervalMs=500", "znode.container.maxPerMinute=7",
        "znode.container.maxNeverUsedIntervalMs=9000000000", "enforceQuota=true",
    )  # fmt: skip
    assert rules(tmp_path, *lines) == TreeRules(True, 500, 7, 9_000_000_000, True)
    assert parse("\n".join([f"dataDir={tmp_path}", "clientPort=2181", *lines])).warnings == ()


@pytest.mark.parametrize(
    "line",
    ["znode.container.checkIntervalMs=0", "znode.container.checkIntervalMs=-1"],
)
def test_invalid_tree_setting_is_reported_in_one_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=line.partition("=")[0]):
        rules(tmp_path, line)


def test_server_255_cannot_have_ttl_nodes(tmp_path: Path) -> None:
    """The first byte of server 255's session ids equals the first byte of a TTL znode's ephemeralOwner."""
    (tmp_path / "myid").write_text("255\n")
    assert rules(tmp_path).extended_types is False
    with pytest.raises(ConfigError, match="at most 254, not 255"):
        rules(tmp_path, "extendedTypesEnabled=true")
