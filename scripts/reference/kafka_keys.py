"""Reference page of the keys of brokers and topics: Kafka's keys, with the effect of each in zabka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scripts.reference.markdown import code, document, table
from zabka.broker_sim.configs.broker_config import BROKER_KEYS, DYNAMIC_KEYS
from zabka.broker_sim.configs.broker_keys import KAFKA_KEYS, REPLICATION_QUOTAS
from zabka.broker_sim.configs.config_def import ConfigKey, render
from zabka.broker_sim.configs.key_sentences import BROKER, TOPIC
from zabka.broker_sim.configs.keys_without_effect import BROKER_WITHOUT_EFFECT, TOPIC_WITHOUT_EFFECT
from zabka.broker_sim.configs.topic_config import TOPIC_KEYS
from zabka.broker_sim.configs.unsupported_values import SUPPORTED_OF_BROKERS, SUPPORTED_OF_TOPICS, Supported
from zabka.controller.historical import HISTORICAL_KEY, Historical

_INTRODUCTION = (
    "A broker reads a `server.properties`, Kafka's own file, with Kafka's keys, defaults and error texts. "
    "`zabka up --set KEY=VALUE` sets a key for every broker of a cluster; `zabka configs` alters topics, and "
    "brokers that run. Source: Kafka 3.9's `KafkaConfig`, `LogConfig` and `DynamicBrokerConfig`. `zabka.` keys "
    "are ours."
)
_DYNAMIC = "*May change while the broker runs.*"


def page() -> str:
    """Return the page of broker and topic keys.  Raises KeyError for a key without a description."""
    brokers = {key: KAFKA_KEYS[key].definition for key in KAFKA_KEYS} | REPLICATION_QUOTAS | BROKER_KEYS
    of_topics = [key for name, key in TOPIC_KEYS.items() if name not in {*TOPIC_WITHOUT_EFFECT, *SUPPORTED_OF_TOPICS}]
    without = {*BROKER_WITHOUT_EFFECT, *SUPPORTED_OF_BROKERS}
    of_brokers = [key for name, key in sorted(brokers.items()) if name not in without]
    sections = [
        "## Of a topic\n\n" + table(_HEADER, map(_topic_row, of_topics)),
        "## Of a broker\n\n" + table(_HEADER[:4], map(_broker_row, of_brokers)),
        f"## Old behaviours\n\n{code(HISTORICAL_KEY)} takes any of these names, separated by commas. The "
        f"sentence says what happens with the switch on.\n\n" + table(["name", "what it brings back"], _historical()),
        f"## Refused\n\n{_REFUSED}\n\n"
        + table(["key", "what it may be", "what it is for", "why nothing else"], _refused()),
        f"## Without an effect\n\n{_WITHOUT_EFFECT}\n\n"
        + table(["key", "of a", "what it is for in Kafka", "why it does nothing here"], _without_effect()),
    ]
    return document("Keys of brokers and topics", _INTRODUCTION, *sections)


_HEADER = ["key", "type", "default", "what it does", "the broker's key below it"]
_REFUSED = (
    "These promise what is not here. A broker does not start with any other value, and a topic does not take one, so "
    "that nobody believes closed what is open."
)
_WITHOUT_EFFECT = (
    "Accepted, checked and described, and nothing here reads them. A broker whose file sets one says so at its start, "
    "and DescribeConfigs says it in the documentation of each (`kafka-configs.sh`, the admin clients)."
)


def _refused() -> Iterable[list[str]]:
    both: Mapping[str, Supported] = {**SUPPORTED_OF_TOPICS, **SUPPORTED_OF_BROKERS}
    for key, (values, meaning, why) in sorted(both.items()):
        yield [code(key), " or ".join(code(each) if each else "not set" for each in values), meaning, why]


def _without_effect() -> Iterable[list[str]]:
    rows = [(key, "topic", *meaning) for key, meaning in TOPIC_WITHOUT_EFFECT.items()]
    rows += [(key, "broker", *meaning) for key, meaning in BROKER_WITHOUT_EFFECT.items()]
    for key, kind, meaning, why in sorted(rows):
        yield [code(key), kind, meaning, f"{why[0].upper()}{why[1:]}."]


def _topic_row(key: ConfigKey) -> list[str]:
    return [code(key.name), key.type.name.lower(), code(render(key.default)), TOPIC[key.name], code(key.synonym or "")]


def _broker_row(key: ConfigKey) -> list[str]:
    meaning = BROKER[key.name] + (f" {_DYNAMIC}" if key.name in DYNAMIC_KEYS else "")
    return [code(key.name), key.type.name.lower(), code(render(key.default)), meaning]


def _historical() -> list[list[str]]:
    """Return a table row for each historical behaviour, with the docstring from the enumeration."""
    import ast
    import inspect

    (definition,) = ast.parse(inspect.getsource(Historical)).body
    assert isinstance(definition, ast.ClassDef)
    rows = []
    for before, node in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(before, ast.Assign) and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            assert isinstance(before.value, ast.Constant)
            rows.append([code(str(before.value.value)), " ".join(str(node.value.value).split())])
    return rows
