"""What DescribeConfigs says of a key to whoever asks for documentation (KIP-569), in our own words."""

from __future__ import annotations

from collections.abc import Mapping

from zabka.broker_sim.configs.key_sentences import BROKER, TOPIC
from zabka.broker_sim.configs.keys_without_effect import BROKER_WITHOUT_EFFECT, TOPIC_WITHOUT_EFFECT
from zabka.broker_sim.configs.unsupported_values import SUPPORTED_OF_BROKERS, SUPPORTED_OF_TOPICS, Supported


def _documentation(
    honoured: Mapping[str, str],
    without_effect: Mapping[str, tuple[str, str]],
    supported: Mapping[str, Supported],
) -> dict[str, str]:
    return {
        **honoured,
        **{key: f"{said} Without effect here: {why}." for key, (said, why) in without_effect.items()},
        **{key: f"{said} {_only(values)}" for key, (values, said, _) in supported.items()},
    }


def _only(values: tuple[str, ...]) -> str:
    return f"Here it may only be {values[0]}." if values[0] else "Here it may not be set."


BROKER_DOCUMENTATION: Mapping[str, str] = _documentation(BROKER, BROKER_WITHOUT_EFFECT, SUPPORTED_OF_BROKERS)
"""Of every key of a broker."""
TOPIC_DOCUMENTATION: Mapping[str, str] = _documentation(TOPIC, TOPIC_WITHOUT_EFFECT, SUPPORTED_OF_TOPICS)
"""Of every key of a topic."""
