"""GET /listeners and GET /acls: what running brokers report, and the token for ACLs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import Server
from zabka.agent.protocol import ProcessInfo
from zabka.kafka.acls import (
    AclBinding,
    AclEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

LISTENER: dict[str, Any] = {
    "name": "CLIENTS", "host": "127.0.0.1", "port": 9093, "protocol": "SASL_SSL", "mechanisms": ["SCRAM-SHA-512"],
    "inter_broker": False, "client_auth": "none",
    "certificate": {"subject": "CN=broker", "not_before_ms": 1, "not_after_ms": 2},
}  # fmt: skip
AUTHORIZER = {"class": "a.b.AclAuthorizer", "super_users": ["User:admin"], "allow_everyone_if_no_acl_found": False}
BINDING = AclBinding(
    ResourcePattern(ResourceType.TRANSACTIONAL_ID, "pay-", PatternType.PREFIXED),
    AclEntry("User:shop", "*", AclOperation.DESCRIBE, Permission.DENY),
)


def ask(server: Server, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}/api/v1{path}", headers=headers, trust_env=False)


def test_listeners_of_running_brokers_are_returned(server: Server) -> None:
    server.agent.set_status("broker-1", 10, listeners=[LISTENER])
    server.agent.set_status("broker-2", 10, listeners=[LISTENER])
    server.agent.processes["broker-2"] = ProcessInfo("broker-2", "down", None, None, 1)
    server.agent._show()
    assert ask(server, "/listeners").json() == [{"broker_id": 1, **LISTENER}]


def test_acls_are_returned_with_the_authorizer(server: Server) -> None:
    server.admin.bindings = [BINDING]
    server.agent.set_status("broker-1", 10, authorizer=AUTHORIZER)
    server.agent.set_status("broker-2", 10, authorizer=None)
    found = ask(server, "/acls").json()
    assert (found["authorizer"], found["super_users"], found["note"]) == ("a.b.AclAuthorizer", ["User:admin"], None)
    assert (found["brokers_without_authorizer"], found["omitted"]) == ([2], 0)
    assert found["bindings"] == [
        {
            "resource_type": "TransactionalId", "resource_name": "pay-", "pattern_type": "Prefixed",
            "principal": "User:shop", "host": "*", "operation": "Describe", "permission": "Deny",
        }
    ]  # fmt: skip
    assert "super_users" not in ask(server, "/brokers").text


def test_cluster_without_an_authorizer_is_stated_as_such(server: Server) -> None:
    server.admin.bindings = [BINDING]
    server.agent.set_status("broker-1", 10, authorizer=None)
    found = ask(server, "/acls").json()
    assert (found["authorizer"], found["bindings"]) == (None, [])
    assert "every operation is allowed to every client" in found["note"]


def test_acls_are_unavailable_without_a_running_broker(server: Server) -> None:
    answer = ask(server, "/acls")
    assert answer.status_code == 503 and "no broker reports its authorizer" in answer.json()["detail"]


def test_acls_need_the_token_and_listeners_do_not(tmp_path: Path) -> None:
    with Server(tmp_path, token="sesame") as server:
        server.agent.set_status("broker-1", 10, authorizer=None, listeners=[LISTENER])
        assert ask(server, "/acls").status_code == 401
        assert ask(server, "/acls", authorization="Bearer sesame").status_code == 200
        assert ask(server, "/listeners").status_code == 200


@pytest.mark.parametrize(
    ("path", "is_guarded"),
    [
        ("config/users/alice", True),
        ("/config/brokers/1", True),
        ("config/users/", True),
        ("kafka-acl-extended/prefixed/Topic/t", True),
        ("config/topics/t", False),
        ("controller", False),
    ],
)
def test_znodes_with_credentials_need_the_token(tmp_path: Path, path: str, is_guarded: bool) -> None:
    with Server(tmp_path, token="sesame") as server:
        assert (ask(server, f"/znodes/{path}").status_code == 401) is is_guarded
        assert ask(server, f"/znodes/{path}", authorization="Bearer sesame").status_code != 401
