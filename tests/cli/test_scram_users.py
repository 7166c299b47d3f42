"""`zabka configs` for users: SCRAM credentials, changed by brokers or written to the ensemble, as by ConfigCommand."""

from __future__ import annotations

import pytest

from tests.interop.kafka_tools import called
from zabka.broker_sim.configs.credential_cache import CredentialCache
from zabka.cli import configs
from zabka.kafka.scram import keys_of, salted_password
from zabka.testing import LiveCluster

ALTER = ("--zookeeper", "h:1", "--alter", "--user", "ann", "--add-config")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((*ALTER, "SCRAM-SHA-256=[iterations=4095,password=x]"), "Iterations 4095 is less than the minimum 4096"),
        ((*ALTER, "SCRAM-SHA-256=secret"), "Invalid credential property SCRAM-SHA-256"),
        ((*ALTER, "producer_byte_rate=1"), "only users' SCRAM credentials can be changed"),
        ((*ALTER, "SCRAM-SHA-256=[password=x]", "--bootstrap-server", "h:1"), "Only one of --bootstrap-server"),
        (("--describe", "--user", "ann", "--zk-tls-config-file", "f"), "--zk-tls-config-file needs --zookeeper"),
        ((*ALTER, "SCRAM-SHA-256=[password=x]", "--zk-tls-config-file", "none"), "none cannot be read"),
        (("--zookeeper", "h:1", "--describe", "--topic", "t"), "--zookeeper is for users"),
        (("--zookeeper", "h:1", "--describe", "--entity-type", "users", "--entity-default"), "has no credentials"),
        (("--zookeeper", "h:1x", "--describe", "--entity-type", "users"), "--zookeeper h:1x: "),
    ],
)
def test_credential_that_cannot_be_written_is_rejected(arguments: tuple[str, ...], expected: str) -> None:
    code, out, err = called(configs.main, *arguments)
    assert (code, out) == (1, "")
    assert expected in err and "password=x" not in err


def test_credentials_are_written_without_a_broker(zabka_cluster: LiveCluster) -> None:
    """The brokers run here only because this cluster is shared; the tool does not connect to them."""
    hosts = zabka_cluster.zookeeper_connect

    alter = ("--zookeeper", hosts, "--alter", "--entity-type", "users", "--entity-name", "a,b")
    added = called(configs.main, *alter, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=p,w]")
    assert added == (0, "Completed updating config for entity: user-principal 'a,b'.\n", "")
    added = called(configs.main, *alter, "--add-config", "SCRAM-SHA-256=[password=pw]")
    assert added.code == 0
    assert called(configs.main, *alter, "--delete-config", "SCRAM-SHA-256").code == 0
    described = called(configs.main, "--zookeeper", hosts, "--describe", "--user", "a,b")
    name, _, stored = described.out.removeprefix("Configs for user-principal 'a,b' are ").strip().partition("=")
    cache = CredentialCache()
    cache.update("a,b", {name: stored})
    found = cache.credential("SCRAM-SHA-512", "a,b")
    assert found is not None and found.iterations == 8192
    keys = keys_of("SCRAM-SHA-512", salted_password("SCRAM-SHA-512", "p,w", found.salt, 8192))
    assert (found.stored_key, found.server_key) == keys[1:]
    again = called(configs.main, *alter, "--delete-config", "SCRAM-SHA-256")
    assert again.code == 1 and "Invalid config(s): SCRAM-SHA-256" in again.err


def test_brokers_change_and_describe_credentials(zabka_cluster: LiveCluster) -> None:
    brokers = ("--bootstrap-server", zabka_cluster.bootstrap)
    alter = (*brokers, "--alter", "--entity-type", "users", "--entity-name", "eve")
    added = called(configs.main, *alter, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=pw]")
    assert added == (0, "Completed updating config for user eve.\n", "")
    described = called(configs.main, *brokers, "--describe", "--user", "eve")
    assert described.out == "SCRAM credential configs for user-principal 'eve' are SCRAM-SHA-512=iterations=8192\n"
    missing = called(configs.main, *alter, "--delete-config", "SCRAM-SHA-256")
    assert missing.code == 1 and "Invalid config(s): SCRAM-SHA-256" in missing.err
    assert called(configs.main, *alter, "--delete-config", "SCRAM-SHA-512").code == 0
    assert called(configs.main, *brokers, "--describe", "--entity-type", "users").out == ""
