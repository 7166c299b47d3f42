"""JSON models of the brokers' listeners and of the ACLs."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ListenerCertificate(BaseModel):
    """The certificate that a listener presents."""

    subject: str
    not_before_ms: int
    not_after_ms: int = Field(description="When it expires")


class ListenerView(BaseModel):
    """One listener of a running broker, with its advertised address."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "broker_id": 1, "name": "CLIENTS", "host": "127.0.0.1", "port": 9093, "protocol": "SASL_SSL",
        "mechanisms": ["SCRAM-SHA-512"], "inter_broker": False, "client_auth": "none",
        "certificate": {"subject": "CN=broker-1", "not_before_ms": 1700000000000, "not_after_ms": 1731536000000},
    }})  # fmt: skip

    broker_id: int
    name: str
    host: str
    port: int
    protocol: str = Field(description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
    mechanisms: list[str] = Field(description="The SASL mechanisms of clients; empty without SASL")
    inter_broker: bool = Field(description="Whether brokers use it among themselves")
    client_auth: str | None = Field(
        description="`required`, `requested` or `none`: the certificate of clients; null without TLS"
    )
    certificate: ListenerCertificate | None = Field(description="Null without TLS")


class AclBindingView(BaseModel):
    """One ACL: who may or may not do what on which resources, in the words of Kafka's tools."""

    resource_type: str
    resource_name: str
    pattern_type: str = Field(description="Literal or Prefixed")
    principal: str
    host: str
    operation: str
    permission: str = Field(description="Allow or Deny")


class Acls(BaseModel):
    """The authorizer of the brokers, and the ACLs."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "authorizer": "kafka.security.authorizer.AclAuthorizer", "super_users": ["User:admin"],
        "allow_everyone_if_no_acl_found": False, "brokers_without_authorizer": [], "omitted": 0, "note": None,
        "bindings": [{"resource_type": "Topic", "resource_name": "orders", "pattern_type": "Literal",
                      "principal": "User:shop", "host": "*", "operation": "Write", "permission": "Allow"}],
    }})  # fmt: skip

    authorizer: str | None = Field(description="authorizer.class.name; null if no broker has an authorizer")
    super_users: list[str] = Field(description="Principals that may do everything, on at least one broker")
    allow_everyone_if_no_acl_found: bool = Field(description="On at least one broker")
    brokers_without_authorizer: list[int] = Field(description="Brokers that allow everything to every client")
    bindings: list[AclBindingView]
    omitted: int = Field(description="Number of further ACLs that this answer leaves out")
    note: str | None = Field(description="What follows for clients if no authorizer is set")
