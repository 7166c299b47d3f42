"""Each of Kafka's config keys is supported, rejected, or listed as without effect. None is ignored silently."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from zabka.broker_sim.configs.broker_config import BROKER_KEYS
from zabka.broker_sim.configs.broker_keys import KAFKA_KEYS, REPLICATION_QUOTAS
from zabka.broker_sim.configs.key_sentences import BROKER, TOPIC
from zabka.broker_sim.configs.keys_without_effect import BROKER_WITHOUT_EFFECT, TOPIC_WITHOUT_EFFECT
from zabka.broker_sim.configs.topic_config import TOPIC_KEYS
from zabka.broker_sim.configs.unsupported_values import SUPPORTED_OF_BROKERS, SUPPORTED_OF_TOPICS

ROOT = Path(__file__).resolve().parents[2]
LISTS = {
    "topic": (TOPIC_KEYS.keys(), TOPIC, TOPIC_WITHOUT_EFFECT, SUPPORTED_OF_TOPICS),
    "broker": (
        KAFKA_KEYS.keys() | BROKER_KEYS.keys() | REPLICATION_QUOTAS.keys(),
        BROKER,
        BROKER_WITHOUT_EFFECT,
        SUPPORTED_OF_BROKERS,
    ),
}
TABLES = {"broker_keys.py", "topic_config.py", "key_sentences.py", "keys_without_effect.py", "unsupported_values.py"}
"""Modules that list key names without reading the keys."""
OF_CLIENTS = {"client_properties.py"}
"""Modules that read keys of Kafka's clients, some of which are also keys of brokers."""
CHECKED_ONLY = {"background.threads", "num.io.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers"}
"""Keys of thread pools that these brokers do not have.

A change of such a key is still checked as in Kafka, against the size that the pool would have.
"""


@cache
def _named() -> frozenset[str]:
    """Return all string constants in the brokers' code, except those in `TABLES` and `OF_CLIENTS`."""
    found: set[str] = set()
    for folder in ("broker_sim", "controller"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name in TABLES | OF_CLIENTS:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ConfigKey":
                    continue
                arguments = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
                found |= {
                    each.value for each in arguments if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
    return frozenset(found)


@pytest.mark.parametrize("kind", LISTS)
def test_each_config_key_is_in_exactly_one_list(kind: str) -> None:
    keys, *lists = LISTS[kind]
    listed = [key for each in lists for key in each]
    assert sorted(listed) == sorted(keys)


@pytest.mark.parametrize("kind", LISTS)
def test_supported_config_keys_are_read_by_the_code(kind: str) -> None:
    _, honoured, _, _ = LISTS[kind]
    assert honoured.keys() - _named() == set()


@pytest.mark.parametrize("kind", LISTS)
def test_config_keys_without_effect_are_not_read_by_the_code(kind: str) -> None:
    _, _, without_effect, _ = LISTS[kind]
    assert not (without_effect.keys() - CHECKED_ONLY) & _named()


def test_description_of_each_config_key_is_one_line() -> None:
    for _, *lists in LISTS.values():
        for each in lists:
            for key, description in each.items():
                texts = (
                    [description]
                    if isinstance(description, str)
                    else [text for text in description if isinstance(text, str)]
                )
                assert all(text and "\n" not in text for text in texts), key
