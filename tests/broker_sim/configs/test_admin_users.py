"""Quotas and credentials of users, stored in ZooKeeper as Kafka's tools store them."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.kafka.zk import znodes

Parts = dict[str, str | None]
EXACT, DEFAULT, ANY = 0, 1, 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster().start()
    yield made
    made.stop_all()


def asked(cluster: Cluster, message: Any) -> Any:
    node = cluster.controller
    return cluster.on(node, node.broker.handle(message))


def alter(cluster: Cluster, entity: Parts, values: dict[str, float | None]) -> tuple[ErrorCode, str | None]:
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()]
    entry = {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()], "ops": ops}
    row = asked(cluster, request(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry], validate_only=False)).entries[0]
    return row.error_code, row.error_message


def describe(cluster: Cluster, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    rows = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    answer = asked(cluster, request(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=rows, strict=strict))
    if answer.error_code is not ErrorCode.none:
        return answer.error_code, answer.error_message
    return [
        ({p.entity_type: p.entity_name for p in e.entity}, {v.key: float(v.value) for v in e.values})
        for e in answer.entries
    ]


def test_quota_znode_uses_kafkas_path_and_is_removed_when_empty(cluster: Cluster) -> None:
    both: Parts = {"user": "a b~*", "client-id": None}
    assert alter(cluster, both, {"producer_byte_rate": 1000.0}) == (ErrorCode.none, None)
    path = "/config/users/a%20b%7E%2A/clients/<default>"
    assert znodes.decode_config(cluster.ensemble.data(path)) == {"producer_byte_rate": "1000"}
    assert describe(cluster, ("user", EXACT, "a b~*"), ("client-id", DEFAULT, None)) == [
        (both, {"producer_byte_rate": 1000.0})
    ]
    assert alter(cluster, both, {"producer_byte_rate": None}) == (ErrorCode.none, None)
    assert "/config/users/a%20b%7E%2A" not in cluster.ensemble.nodes


def test_quota_filter_matches_names_defaults_and_any_entity(cluster: Cluster) -> None:
    alter(cluster, {"user": "u"}, {"request_percentage": 50.5})
    alter(cluster, {"user": None}, {"consumer_byte_rate": 7.0})
    alter(cluster, {"user": "u", "client-id": "c"}, {"producer_byte_rate": 1.0})
    alter(cluster, {"client-id": "c"}, {"producer_byte_rate": 2.0})
    alter(cluster, {"ip": "127.0.0.1"}, {"connection_creation_rate": 3.0})
    assert describe(cluster, ("user", ANY, None), strict=True) == [
        ({"user": "u"}, {"request_percentage": 50.5}),
        ({"user": None}, {"consumer_byte_rate": 7.0}),
    ]
    assert len(describe(cluster, ("user", EXACT, "u"))) == 2
    assert describe(cluster, ("client-id", EXACT, "c"), strict=True) == [
        ({"client-id": "c"}, {"producer_byte_rate": 2.0})
    ]
    assert describe(cluster, ("ip", ANY, None)) == [({"ip": "127.0.0.1"}, {"connection_creation_rate": 3.0})]
    assert len(describe(cluster)) == 5 and describe(cluster, strict=True) == []


def test_non_finite_quota_is_written_as_java_formats_it(cluster: Cluster) -> None:
    texts = {nan: "NaN", inf: "Infinity", -inf: "-Infinity", 1e-320: "1E-320"}
    for value, text in texts.items():
        assert alter(cluster, {"client-id": "odd"}, {"request_percentage": value}) == (ErrorCode.none, None)
        kept = znodes.decode_config(cluster.ensemble.data("/config/clients/odd"))
        assert kept == {"request_percentage": text}
    alter(cluster, {"client-id": "odd"}, {"request_percentage": None})


@pytest.mark.parametrize(
    ("entity", "values", "expected_text"),
    [
        ({}, {}, "Invalid empty client quota entity"),
        ({"user": ""}, {}, "Empty user not supported"),
        ({"team": "x"}, {}, "Unhandled client quota entity type: team"),
        ({"ip": "1.1.1.1", "user": "u"}, {}, "IP entity should not be used with user/client ID entity"),
        ({"user": "u"}, {"foo": 1.0}, "Invalid configuration key foo"),
        ({"user": "u"}, {"producer_byte_rate": 1.5}, "Configuration producer_byte_rate must be a LONG value"),
    ],
)
def test_invalid_quota_is_rejected(
    cluster: Cluster, entity: Parts, values: dict[str, float | None], expected_text: str
) -> None:
    error, message = alter(cluster, entity, values)
    assert error is ErrorCode.invalid_request and expected_text in str(message)


def test_quota_filter_that_cannot_match_is_rejected(cluster: Cluster) -> None:
    assert describe(cluster, ("user", ANY, None), ("ip", ANY, None))[0] is ErrorCode.invalid_request
    assert describe(cluster, ("user", ANY, None), ("user", ANY, None))[0] is ErrorCode.invalid_request
    assert describe(cluster, ("team", ANY, None)) == (
        ErrorCode.unsupported_version,
        "Custom entity type 'team' not supported",
    )


def change_credentials(cluster: Cluster, **values: Any) -> Any:
    return asked(cluster, request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, **values)).results[0]


def test_scram_credential_stores_the_server_key_not_the_password(cluster: Cluster) -> None:
    # RFC 7677's example: user "user", password "pencil".
    salted = bytes.fromhex("c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d")
    given = {"name": "user", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": salted}
    assert change_credentials(cluster, upsertions=[given]).error_code is ErrorCode.none
    kept = (znodes.decode_config(cluster.ensemble.data("/config/users/user")) or {})["SCRAM-SHA-256"]
    assert "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=" in kept and kept.endswith(",iterations=4096")
    described = asked(cluster, request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)).results
    assert [(row.user, row.credential_infos[0].iterations) for row in described] == [("user", 4096)]
    deletion = {"name": "user", "mechanism": 1}
    assert change_credentials(cluster, deletions=[deletion]).error_code is ErrorCode.none
    assert change_credentials(cluster, deletions=[deletion]).error_code is ErrorCode.resource_not_found
    one = asked(cluster, request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=[{"name": "user"}])).results[0]
    assert one.error_code is ErrorCode.resource_not_found


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"name": ""}, ErrorCode.unacceptable_credential),
        ({"mechanism": 9}, ErrorCode.unsupported_sasl_mechanism),
        ({"iterations": 5}, ErrorCode.unacceptable_credential),
        ({"iterations": 99_999}, ErrorCode.unacceptable_credential),
    ],
)
def test_invalid_credential_is_rejected(cluster: Cluster, change: dict[str, Any], error: ErrorCode) -> None:
    given = {"name": "u", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p", **change}
    assert change_credentials(cluster, upsertions=[given]).error_code is error
