"""/brokers/ids/N: the registration of a broker, with its listeners and features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zabka.kafka.zk.znodes.json_content import PORT_MAX, decode, encode, is_int32, is_tellable, plain_number


class BrokerEndpoint(NamedTuple):
    """A listener of a broker, with its advertised address."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


LOG_INTACT = ("zabka.log.intact", 1, 1)
"""Feature with which zabka's brokers declare in their registration that their logs are intact.

The format of a registration allows additional features (KIP-584), and Kafka's controllers ignore this one.
"""


class BrokerInfo(NamedTuple):
    """The registration that a broker writes to /brokers/ids/N."""

    broker_id: int
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    jmx_port: int = -1
    features: tuple[tuple[str, int, int], ...] = ()
    """Supported features of the broker: name, lowest and highest level."""
    log_intact: bool = False
    """Whether the broker's logs are as complete as at its last registration. Kafka's brokers do not declare this."""

    def supports(self, finalized: Mapping[str, int]) -> bool:
        """Return whether the broker supports every finalized feature of the cluster at its level (KIP-584).

        Otherwise the broker cannot join the cluster.
        """
        supported = {name: (low, high) for name, low, high in self.features}
        for name, level in finalized.items():
            low, high = supported.get(name, (0, -1))
            if not low <= level <= high:
                return False
        return True


def encode_broker(info: BrokerInfo, timestamp_ms: int) -> bytes:
    """Encode the content of /brokers/ids/N (BrokerIdZNode, version 5)."""
    plain = next((e for e in info.endpoints if e.security_protocol == "PLAINTEXT"), None)
    value: dict[str, object] = {
        "version": 5,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "jmx_port": info.jmx_port,
        "timestamp": str(timestamp_ms),
        "endpoints": [f"{e.listener}://{_bracketed(e.host)}:{e.port}" for e in info.endpoints],
    }
    if info.rack is not None:
        value["rack"] = info.rack
    value["listener_security_protocol_map"] = {e.listener: e.security_protocol for e in info.endpoints}
    features = (*info.features, LOG_INTACT) if info.log_intact else info.features
    value["features"] = {n: {"min_version": low, "max_version": high} for n, low, high in features}
    return encode(value)


def decode_broker(broker_id: int, data: bytes | None) -> BrokerInfo | None:
    """Decode the content of /brokers/ids/N, versions 1 to 5; None if it is not valid."""
    value = decode(data)
    if value is None:
        return None
    protocols = value.get("listener_security_protocol_map")
    names = protocols if isinstance(protocols, dict) else {}
    listed = value.get("endpoints")
    endpoints: list[BrokerEndpoint] = []
    if isinstance(listed, list) and listed:
        for each in listed:
            endpoint = _endpoint(each, names)
            if endpoint is None:
                return None
            endpoints.append(endpoint)
    elif isinstance(value.get("host"), str) and is_int32(value.get("port"), 0, PORT_MAX):
        endpoints.append(BrokerEndpoint("PLAINTEXT", value["host"], value["port"]))
    else:
        return None
    rack, jmx_port = value.get("rack"), value.get("jmx_port")
    texts = [rack, *(text for e in endpoints for text in (e.listener, e.host))]
    if not all(is_tellable(text) for text in texts if isinstance(text, str)):
        return None
    features = _features(value.get("features"))
    return BrokerInfo(
        broker_id,
        tuple(endpoints),
        rack if isinstance(rack, str) else None,
        jmx_port if isinstance(jmx_port, int) and is_int32(jmx_port, -1, PORT_MAX) else -1,
        tuple(feature for feature in features if feature != LOG_INTACT),
        LOG_INTACT in features,
    )


def _features(value: object) -> tuple[tuple[str, int, int], ...]:
    """Decode the valid features of a broker. An invalid feature counts as unsupported."""
    found = []
    for name, row in value.items() if isinstance(value, dict) else ():
        low, high = (row.get("min_version"), row.get("max_version")) if isinstance(row, dict) else (None, None)
        if isinstance(low, int) and isinstance(high, int) and is_int32(low, 0) and is_int32(high, 0):
            found.append((str(name), low, high))
    return tuple(found)


def _endpoint(text: object, protocols: Mapping[str, object]) -> BrokerEndpoint | None:
    if not isinstance(text, str):
        return None
    listener, found, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    number = plain_number(port, PORT_MAX)
    if not found or not colon or number is None or not text.isascii():
        return None
    protocol = protocols.get(listener, listener)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return BrokerEndpoint(listener, host, number, str(protocol))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
