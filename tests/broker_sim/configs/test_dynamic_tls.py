"""Stores of listeners that change by dynamic configuration, with real files and a broker in virtual time."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from tests.ensemble.server.pem_files import Authority, needs_openssl
from zabka.broker_sim.configs.broker_config import config_from
from zabka.broker_sim.configs.config_resources import Source
from zabka.broker_sim.configs.encoder_keys import read_encoder
from zabka.broker_sim.listener_stores import OpenStores
from zabka.broker_sim.password_encoder import PasswordEncoder
from zabka.journal.events import ConfigChanged
from zabka.kafka.client.admin_client import BROKER_RESOURCE
from zabka.kafka.zk import znodes

pytestmark = needs_openssl
PREFIX = "listener.name.ssl."
LOCATION, KEY_PASSWORD = f"{PREFIX}ssl.keystore.location", f"{PREFIX}ssl.key.password"
SECRET = {"password.encoder.secret": "encoder-secret"}
FAILED = (
    "Invalid value org.apache.kafka.common.config.ConfigException: Validation of dynamic config update of SSLFactory "
    "failed: org.apache.kafka.common.config.ConfigException: "
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("ssl"))
    authority.store("first", "/O=Zabka/CN=broker", "DNS:localhost,IP:127.0.0.1")
    authority.store("second", "/O=Zabka/CN=broker", "DNS:localhost,DNS:more,IP:127.0.0.1")
    authority.store("locked", "/O=Zabka/CN=broker", "DNS:localhost,IP:127.0.0.1", password="sesame")
    authority.store("stranger", "/O=Zabka/CN=stranger", "DNS:localhost,IP:127.0.0.1")
    authority.store("fewer", "/O=Zabka/CN=broker", "DNS:localhost")
    return authority


class Secured:
    """One broker with a TLS listener whose stores are loaded, although its port is not open."""

    def __init__(self, store: Path, **keys: str) -> None:
        self.problems: list[str] = []
        self.loaded: list[str] = []
        self.cluster = Cluster(1)
        self.node = self.cluster.nodes[1]
        self.node.keys |= {
            "listeners": "PLAINTEXT://broker-1:9092,SSL://broker-1:9093",
            "ssl.keystore.location": str(store),
            **keys,
        }
        config = config_from({"broker.id": "1", "zookeeper.connect": "h:1", **self.node.keys})
        encoder = read_encoder(config.values)
        passwords = None if encoder is None else PasswordEncoder(encoder, secrets.token_bytes)
        self.stores = OpenStores(passwords, self.problems.append, self.loaded.append)
        self.stores.load(config.tls["SSL"])
        self.node.more_ports = {"stores": self.stores}
        self.cluster.start()

    def alter(self, changes: dict[str, str | None], broker: str = "1") -> tuple[ErrorCode, str] | None:
        refused = self.cluster.refused(self.cluster.client.alter_configs(BROKER_RESOURCE, broker, changes))
        self.cluster.wait(100)
        return None if refused is None else (refused[0], refused[1])

    @property
    def subject_and_names(self) -> tuple[str, int]:
        certificate = self.stores.certificates()["SSL"]
        return certificate.subject, len(certificate.names)

    def stored(self) -> dict[str, str]:
        data: Any = self.cluster.ensemble.data("/config/brokers/1")
        return znodes.decode_config(data) or {}

    def store(self, name: str) -> str:
        return str(Path(self.node.keys["ssl.keystore.location"]).with_name(f"{name}.pem"))


@pytest.fixture
def secured(authority: Authority) -> Iterator[Secured]:
    made = Secured(authority.directory / "first.pem", **SECRET)
    yield made
    made.cluster.stop_all()


def test_changed_location_loads_the_new_key_store(secured: Secured) -> None:
    assert secured.subject_and_names == ("CN=broker,O=Zabka", 2)
    assert secured.alter({LOCATION: secured.store("second")}) is None
    assert secured.subject_and_names == ("CN=broker,O=Zabka", 3)
    assert secured.loaded == ["loaded the stores of the listener SSL: the certificate of CN=broker,O=Zabka"]
    # The first store lacks a name of the second, so it cannot follow, not even by removing the override.
    refused = secured.alter({LOCATION: None})
    assert refused is not None and "Keystore SubjectAltNames do not match" in refused[1]
    assert secured.subject_and_names == ("CN=broker,O=Zabka", 3)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {LOCATION: "stranger"},
            f"{FAILED}Keystore DistinguishedName does not match:  existing={{alias=kafka, DN=CN=broker,O=Zabka}}, "
            "new={alias=kafka, DN=CN=stranger,O=Zabka} for configuration Invalid dynamic configuration",
        ),
        (
            {LOCATION: "fewer"},
            f"{FAILED}Keystore SubjectAltNames do not match:  "
            "existing={alias=kafka, SAN=[[2, localhost], [7, 127.0.0.1]]}, "
            "new={alias=kafka, SAN=[[2, localhost]]} for configuration Invalid dynamic configuration",
        ),
        ({LOCATION: "missing"}, "missing.pem cannot be used: No such file or directory"),
        ({LOCATION: "locked"}, "locked.pem cannot be used: no PEM with what is needed, or a wrong password"),
        ({f"{PREFIX}ssl.keystore.type": "JKS"}, "JKS stores are not supported"),
        (
            {f"{PREFIX}ssl.truststore.location": "first"},
            f"{FAILED}Cannot add SSL truststore to an existing listener for which no truststore was configured.",
        ),
        (
            {"ssl.keystore.location": "second"},
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "Set(ssl.keystore.location)",
        ),
    ],
)
def test_store_that_cannot_follow_is_rejected(secured: Secured, changes: dict[str, str], expected: str) -> None:
    named = {name: value if value == "JKS" else secured.store(value) for name, value in changes.items()}
    refused = secured.alter({**named})
    assert refused is not None and refused[0] is ErrorCode.invalid_request and expected in refused[1]
    assert secured.subject_and_names == ("CN=broker,O=Zabka", 2)
    assert not secured.cluster.ensemble.nodes.get("/config/brokers/1")


def test_allowed_changes_of_names_are_accepted(authority: Authority) -> None:
    flags = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    secured = Secured(authority.directory / "first.pem", **flags)
    assert secured.alter({LOCATION: secured.store("stranger")}) is None
    assert secured.alter({LOCATION: secured.store("fewer")}) is None
    assert secured.subject_and_names == ("CN=broker,O=Zabka", 1)
    secured.cluster.stop_all()


def test_stores_of_all_brokers_cannot_change_at_once(secured: Secured) -> None:
    assert secured.alter({LOCATION: secured.store("second")}, broker="") == (
        ErrorCode.invalid_request,
        f"Cannot update these configs at default cluster level, broker id must be specified: Set({LOCATION})",
    )


def test_modified_file_is_loaded_by_setting_the_same_path(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "broker.pem"
    path.write_bytes((authority.directory / "first.pem").read_bytes())
    secured = Secured(path)
    assert secured.alter({LOCATION: str(path)}) is None
    assert secured.loaded == []
    path.write_bytes((authority.directory / "second.pem").read_bytes())
    os.utime(path, ns=(1, 1))
    assert secured.subject_and_names == ("CN=broker,O=Zabka", 2)
    assert secured.alter({LOCATION: str(path)}) is None
    assert secured.subject_and_names == ("CN=broker,O=Zabka", 3)
    path.write_bytes((authority.directory / "stranger.pem").read_bytes())
    refused = secured.alter({LOCATION: str(path)})
    assert refused is not None and refused[0] is ErrorCode.invalid_config
    assert refused[1].startswith(
        "Invalid config value for resource ConfigResource(type=BROKER, name='1'): "
        "Validation of dynamic config update of SSLFactory failed: "
    )
    secured.cluster.stop_all()


# ---- passwords ---------------------------------------------------------------------------------------------------


def test_password_is_encrypted_in_its_znode_and_shown_nowhere(secured: Secured) -> None:
    locked = {LOCATION: secured.store("locked"), KEY_PASSWORD: "sesame"}
    assert secured.alter({**locked}) is None
    assert secured.loaded == ["loaded the stores of the listener SSL: the certificate of CN=broker,O=Zabka"]
    stored = secured.stored()
    passwords = secured.stores.passwords
    assert stored[LOCATION] == secured.store("locked") and passwords is not None
    assert "sesame" not in stored[KEY_PASSWORD] and passwords.decode(stored[KEY_PASSWORD]) == "sesame"
    assert secured.node.of(ConfigChanged)[-1].config[KEY_PASSWORD] == "(hidden)"
    entries = {each.name: each for each in secured.cluster.run(secured.cluster.client.describe_configs(4, "1"))}
    assert (entries[KEY_PASSWORD].value, entries[KEY_PASSWORD].is_sensitive) == (None, True)
    assert (entries[LOCATION].value, entries[LOCATION].is_sensitive) == (secured.store("locked"), False)
    assert [source for *_, source in entries[LOCATION].synonyms] == [
        Source.DYNAMIC_BROKER_CONFIG, Source.STATIC_BROKER_CONFIG,
    ]  # fmt: skip
    # Other changes leave the encrypted password as it is.
    assert secured.alter({"log.cleaner.threads": "2"}) is None
    assert secured.stored()[KEY_PASSWORD] == stored[KEY_PASSWORD]


def test_password_without_an_encoder_secret_is_rejected(authority: Authority) -> None:
    secured = Secured(authority.directory / "first.pem")
    assert secured.alter({LOCATION: secured.store("locked"), KEY_PASSWORD: "sesame"}) == (
        ErrorCode.invalid_config,
        "Invalid config value for resource ConfigResource(type=BROKER, name='1'): "
        "Password encoder secret not configured",
    )
    assert secured.loaded == []
    secured.cluster.stop_all()


def test_restarted_broker_loads_the_stores_in_its_znode(secured: Secured) -> None:
    """At the start, the certificate can differ from the one in the configuration file."""
    overrides = {LOCATION: secured.store("stranger"), "log.cleaner.threads": "2"}
    secured.cluster.ensemble.put("/config/brokers/1", znodes.encode_config(overrides))
    secured.node.kill()
    secured.cluster.expire(secured.node)
    secured.cluster.start(1)
    assert secured.subject_and_names == ("CN=stranger,O=Zabka", 2)


def test_undecodable_password_is_ignored_with_a_log_line(secured: Secured) -> None:
    overrides = {KEY_PASSWORD: "encrypted with another secret", LOCATION: secured.store("second")}
    secured.cluster.ensemble.put("/config/brokers/1", znodes.encode_config(overrides))
    secured.cluster.ensemble.put("/config/changes/config_change_0000000009", b'{"version":2,"entity_path":"brokers/1"}')
    secured.cluster.wait(100)
    assert f"Dynamic password config {KEY_PASSWORD} could not be decoded, ignoring." in secured.node.logged
    assert secured.subject_and_names == ("CN=broker,O=Zabka", 3)
