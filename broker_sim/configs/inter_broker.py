"""The listeners that brokers use for connections to each other, and how they authenticate (KafkaConfig).

| connections | listener |
|---|---|
| fetches, transaction markers and verification, controlled shutdown | inter-broker listener |
| from the controller to brokers, and from brokers to the controller | `control.plane.listener.name` if it is set |

The inter-broker listener is `inter.broker.listener.name`, or the listener that is named like
`security.inter.broker.protocol`. A broker opens connections with the security protocol and keys of its own listener of
that name, to the address of the other broker's listener of that name.
"""

from __future__ import annotations

from collections.abc import Mapping

from zabka.broker_sim.configs.config_def import ConfigError, ConfigKey, ConfigType, Value, one_of
from zabka.broker_sim.configs.listeners import PLAINTEXT, PROTOCOLS, Listener, protocol_map
from zabka.broker_sim.configs.login_keys import TokenLoginKeys
from zabka.broker_sim.configs.sasl_keys import SaslKeys, login_of
from zabka.broker_sim.configs.tls_keys import TlsKeys
from zabka.kafka.sasl_login import Credentials

NAME, PROTOCOL = "inter.broker.listener.name", "security.inter.broker.protocol"
CONTROL_NAME = "control.plane.listener.name"
MECHANISM = "sasl.mechanism.inter.broker.protocol"
INTER_BROKER_KEYS = (
    ConfigKey(CONTROL_NAME, ConfigType.STRING, ""),
    ConfigKey(NAME, ConfigType.STRING, ""),
    ConfigKey(MECHANISM, ConfigType.STRING, "GSSAPI"),
    ConfigKey(PROTOCOL, ConfigType.STRING, PLAINTEXT, one_of(*PROTOCOLS)),
)


def inter_broker_listener(values: Mapping[str, Value]) -> str:
    """Return the name of the listener for connections between brokers."""
    return str(values[NAME]).upper() or str(values[PROTOCOL])


def control_plane_listener(values: Mapping[str, Value]) -> str:
    """Return the name of the listener for connections from and to the controller, or "" if it is the other one."""
    return str(values[CONTROL_NAME]).upper()


def check_inter_broker_listeners(
    values: Mapping[str, Value], originals: Mapping[str, str], advertised: tuple[Listener, ...]
) -> None:
    """Raise ConfigError if the listeners of the brokers are not advertised (KafkaConfig.validateValues)."""
    if {NAME, PROTOCOL} <= originals.keys():
        raise ConfigError(f"Only one of {NAME} and {PROTOCOL} should be set.")
    protocols, names = protocol_map(str(values["listener.security.protocol.map"])), [each.name for each in advertised]
    used = {NAME: inter_broker_listener(values), CONTROL_NAME: control_plane_listener(values)}
    for key, name in used.items():
        if not name:
            continue
        if values[key] and name not in protocols:
            raise ConfigError(
                f"Listener with name {name} defined in {key} not found in listener.security.protocol.map."
            )
        if name not in names:
            raise ConfigError(
                f"{key} must be a listener name defined in advertised.listeners. "
                f"The valid options based on currently configured listeners are {','.join(names)}"
            )
    if used[NAME] == used[CONTROL_NAME]:
        raise ConfigError(
            f"{CONTROL_NAME}, when defined, should have a different value from the inter broker listener name. "
            f"Currently they both have the value {used[NAME]}"
        )


def read_credentials(
    values: Mapping[str, Value],
    originals: Mapping[str, str],
    listeners: tuple[Listener, ...],
    tls: Mapping[str, TlsKeys],
    sasl: Mapping[str, SaslKeys],
) -> dict[str, Credentials | TokenLoginKeys]:
    """Return the logins that this broker uses for listeners with SASL, keyed by listener name.

    Raises ConfigError if a login is missing, or if certificates of other brokers could not be verified.
    """
    mechanism = str(values[MECHANISM])
    found: dict[str, Credentials | TokenLoginKeys] = {}
    for listener in listeners:
        if listener.name not in (inter_broker_listener(values), control_plane_listener(values)):
            continue
        if listener.is_encrypted and tls[listener.name].trusted is None:
            raise ConfigError(
                f"listener {listener.name}: brokers need a trust store to verify each other's certificates: "
                "set ssl.truststore.location or ssl.truststore.certificates"
            )
        if listener.needs_sasl:
            if mechanism not in sasl[listener.name].mechanisms:
                raise ConfigError(
                    f"{MECHANISM} must be included in sasl.enabled.mechanisms when SASL is used for inter-broker "
                    f"communication: {mechanism} is not enabled for the listener {listener.name}"
                )
            try:
                found[listener.name] = login_of(values, originals, listener.name, mechanism)
            except ConfigError as wrong:
                raise ConfigError(f"listener {listener.name}: {wrong}") from None
    return found
