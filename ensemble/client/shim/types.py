"""Conversion between the ensemble's records and kazoo's classes."""

from __future__ import annotations

import secrets
import ssl
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kazoo.exceptions import EXCEPTIONS, ConfigurationError, ConnectionLoss, SystemZookeeperError
from kazoo.protocol.states import EventType as KazooEventType
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL as KazooACL
from kazoo.security import Id

from zabka.ensemble.client.sasl import SaslLogin
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.errors import ZooKeeperError as EnsembleError
from zabka.ensemble.records import (
    ACL,
    Create2Response,
    CreateResponse,
    EventType,
    MultiResponse,
    MultiResult,
    OpCode,
    StatResponse,
)

_NONCE_BYTES = 16
EVENT_TYPES: dict[EventType, Any] = {
    EventType.CREATED: KazooEventType.CREATED,
    EventType.DELETED: KazooEventType.DELETED,
    EventType.DATA_CHANGED: KazooEventType.CHANGED,
    EventType.CHILDREN_CHANGED: KazooEventType.CHILD,
}


def kazoo_error(code: int) -> Exception:
    """Return kazoo's exception for an error code."""
    found: Exception = EXCEPTIONS.get(code, SystemZookeeperError)()
    return found


def translate_error(error: BaseException, *, closed: bool) -> BaseException:
    """Return kazoo's exception for an exception of zabka's client.

    With `closed`, an expired session becomes ConnectionLoss, as for a call that kazoo's stop() interrupts.
    """
    if not isinstance(error, EnsembleError):
        return error
    if closed and error.code is ErrorCode.SESSION_EXPIRED:
        loss: Exception = ConnectionLoss()
        return loss
    return kazoo_error(error.code)


def to_acls(acls: Iterable[Any]) -> list[ACL]:
    """Convert kazoo's ACLs to zabka's ACL records."""
    return [ACL(acl.perms, acl.id.scheme, acl.id.id) for acl in acls]


def from_acl(acl: ACL) -> Any:
    """Convert an ACL record to kazoo's ACL."""
    return KazooACL(acl.perms, Id(acl.scheme, acl.id))


def from_stat(stat: Iterable[int]) -> Any:
    """Convert a Stat record to kazoo's ZnodeStat; the fields are the same, in the same order."""
    return ZnodeStat._make(stat)


def from_multi(response: MultiResponse) -> list[Any]:
    """Return a transaction's results as kazoo does: per operation a path, True, a ZnodeStat, or an exception object."""
    return [_from_result(result) for result in response.results]


def _from_result(result: MultiResult) -> Any:
    body = result.body
    if result.op is OpCode.ERROR:
        return kazoo_error(result.error)
    if isinstance(body, CreateResponse | Create2Response):
        return body.path
    if isinstance(body, StatResponse):
        return from_stat(body.stat)
    return True


def sasl_login(options: Mapping[str, Any] | None, legacy: Sequence[str]) -> SaslLogin | None:
    """Return the SASL login from kazoo's `sasl_options`, or from the legacy "user:password" in `auth_data`.

    Return None if neither has one. Raises ConfigurationError if both are given, if the login is incomplete, and for any
    mechanism except DIGEST-MD5.
    """
    for credential in legacy:
        if options:
            raise ConfigurationError("Multiple SASL configurations provided")
        warnings.warn(
            "Passing SASL configuration as part of the auth_data is deprecated, please use sasl_options instead",
            DeprecationWarning,
            stacklevel=5,
        )
        user, _, password = credential.partition(":")
        options = {"mechanism": "DIGEST-MD5", "username": user, "password": password}
    if options is None:
        return None
    if options.get("mechanism") != "DIGEST-MD5":
        raise ConfigurationError("of SASL's mechanisms only DIGEST-MD5 is supported")
    missing = [name for name in ("username", "password") if not isinstance(options.get(name), str)]
    if missing:
        raise ConfigurationError(f"sasl_options lack {' and '.join(missing)}")
    return SaslLogin(options["username"], options["password"], lambda: secrets.token_hex(_NONCE_BYTES))


def client_ssl_context(
    *,
    ca: str | None,
    certfile: str | None,
    keyfile: str | None,
    keyfile_password: str | None,
    verify_certs: bool,
    check_hostname: bool,
) -> ssl.SSLContext:
    """Return a TLS context from kazoo's arguments. Raises ValueError or OSError for invalid arguments."""
    if check_hostname and not verify_certs:
        raise ValueError("verify_certs must be True when check_hostname is True")
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = check_hostname
    context.verify_mode = ssl.CERT_REQUIRED if verify_certs else ssl.CERT_NONE
    if certfile and keyfile:
        context.load_cert_chain(certfile, keyfile, keyfile_password)
    return context
