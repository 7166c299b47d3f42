"""The keys of a broker and of a topic: Kafka's, with what each does here."""

from __future__ import annotations

from broker_sim.configs.broker_config import BROKER_KEYS, DYNAMIC_KEYS, WITHOUT_EFFECT
from broker_sim.configs.config_def import ConfigKey, render
from broker_sim.configs.topic_config import TOPIC_KEYS
from controller.historical import HISTORICAL_KEY, Historical
from tools.reference.key_meanings import BROKER, HELD_ONLY, TOPIC
from tools.reference.markdown import code, document, table

_INTRODUCTION = (
    "A broker reads a `server.properties`, Kafka's own file, with Kafka's keys, defaults and error texts. "
    "`zabka up --set KEY=VALUE` sets a key for every broker of a cluster; `zabka configs` alters topics, and "
    "brokers that run. Source: Kafka 3.9's `KafkaConfig`, `LogConfig` and `DynamicBrokerConfig`. `zabka.` keys "
    "are ours."
)
_DYNAMIC = "*May change while the broker runs.*"


def page() -> str:
    """The page.  Raises KeyError for a key whose meaning nobody has written."""
    held = f"Held and described, without an effect here: {', '.join(code(key) for key in HELD_ONLY)}."
    return document(
        "Keys of brokers and topics",
        _INTRODUCTION,
        "## Of a topic\n\n"
        + table(_HEADER, (_topic_row(key) for key in TOPIC_KEYS.values() if key.name not in HELD_ONLY)),
        "## Of a broker\n\n"
        + table(_HEADER[:4], (_broker_row(key) for _, key in sorted(BROKER_KEYS.items()) if key.name in BROKER)),
        f"## Old behaviours\n\n{code(HISTORICAL_KEY)} takes any of these names, separated by commas. The "
        f"sentence says what happens with the switch on.\n\n" + table(["name", "what it brings back"], _historical()),
        f"## Without an effect\n\n{held}\n\nAccepted, checked and described, with nothing behind them here: "
        f"{', '.join(code(key) for key in sorted(WITHOUT_EFFECT))}.\n",
    )


_HEADER = ["key", "type", "default", "what it does", "the broker's key below it"]


def _topic_row(key: ConfigKey) -> list[str]:
    return [code(key.name), key.type.name.lower(), code(render(key.default)), TOPIC[key.name], code(key.synonym or "")]


def _broker_row(key: ConfigKey) -> list[str]:
    said = BROKER[key.name] + (f" {_DYNAMIC}" if key.name in DYNAMIC_KEYS else "")
    return [code(key.name), key.type.name.lower(), code(render(key.default)), said]


def _historical() -> list[list[str]]:
    """Each switch with the sentence below it in the enumeration."""
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
