"""Config overrides of topics, brokers, clients, users and addresses under /config, and their change notifications."""

from __future__ import annotations

from collections.abc import Mapping

from zabka.kafka.zk.znodes.json_content import decode, encode


def encode_config(config: Mapping[str, str]) -> bytes:
    """Encode the config overrides in /config/{topics,...}/E."""
    return encode({"version": 1, "config": dict(config)})


def decode_config(data: bytes | None) -> dict[str, str] | None:
    """Decode the config overrides in /config/{topics,...}/E; None if the data is not valid."""
    value = decode(data)
    config = value.get("config") if value else None
    if not isinstance(config, dict) or not all(isinstance(each, str) for each in config.values()):
        return None
    return config


def encode_config_change(entity_path: str) -> bytes:
    """Encode the content of /config/changes/config_change_N: the path of an entity, such as topics/T or brokers/N."""
    return encode({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes | None) -> str | None:
    """Decode the entity path in a config change notification; None if the data is not valid."""
    value = decode(data)
    entity_path = value.get("entity_path") if value else None
    return entity_path if isinstance(entity_path, str) else None
