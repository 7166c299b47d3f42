"""Each value in a broker's file is passed to the component that it configures, and that component uses the value."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from zabka.broker_sim.broker import controller_config
from zabka.broker_sim.configs.broker_config import BROKER_KEYS, KafkaConfig, parse_config
from zabka.broker_sim.configs.config_def import ConfigError, ConfigKey, ConfigType, Value, render
from zabka.broker_sim.configs.replica_config import replica_config
from zabka.broker_sim.groups.config import group_config

ROOT = Path(__file__).resolve().parents[3]
LEAST = """broker.id=1
zookeeper.connect=127.0.0.1:2181
listeners=PLAINTEXT://localhost:9092,OTHER://localhost:9093
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT
"""
PARTS: tuple[Callable[[KafkaConfig], Any], ...] = (replica_config, group_config, controller_config)
FIELDS = [
    (part, field.name)
    for part in PARTS
    for field in fields(part(parse_config(LEAST)))
    if field.name.replace("_", ".") in BROKER_KEYS
]
TEXTS = ("OTHER", "compact", "LogAppendTime", "lz4", "org.apache.kafka.common.replica.RackAwareReplicaSelector")


def another_value(key: ConfigKey) -> Value:
    """Return a valid value for the key that differs from the key's default."""
    if key.type is ConfigType.BOOLEAN:
        return not key.default
    if key.type is ConfigType.DOUBLE:
        return 0.25
    numbers = [str(int(key.default) + by) for by in (1, -1)] if isinstance(key.default, int | float) else []
    for text in (*numbers, *TEXTS):
        try:
            return key.parse(text)
        except ConfigError:
            continue
    raise AssertionError(f"no other value is known for {key.name}")


def accessed() -> set[str]:
    """Return the names of all attributes that broker and controller code outside the `configs` packages uses."""
    modules = [*(ROOT / "broker_sim").rglob("*.py"), *(ROOT / "controller").rglob("*.py")]
    return {
        node.attr
        for path in modules
        if path.parent.name != "configs"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }


@pytest.mark.parametrize(("part", "name"), FIELDS, ids=[name for _, name in FIELDS])
def test_broker_config_key_sets_the_field_of_its_component(part: Callable[[KafkaConfig], Any], name: str) -> None:
    key = BROKER_KEYS[name.replace("_", ".")]
    value = another_value(key)
    assert getattr(part(parse_config(f"{LEAST}{key.name}={render(value)}\n")), name) == value != key.default


def test_every_config_field_of_a_component_is_used() -> None:
    topic_defaults = {
        # Count these fields as used, because `partition_config` uses them as defaults for topic configs.
        node.attr
        for node in ast.walk(ast.parse((ROOT / "broker_sim" / "configs" / "replica_config.py").read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert {name for _, name in FIELDS} - accessed() - topic_defaults == set()
