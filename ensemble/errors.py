"""ZooKeeper's error codes (org.apache.zookeeper.KeeperException.Code), as values and as exceptions for clients."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """ZooKeeper's error codes, as in the `err` field of a reply header."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    UNKNOWN_SESSION = -12
    NEW_CONFIG_NO_QUORUM = -13
    RECONFIG_IN_PROGRESS = -14
    API_ERROR = -100
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_CALLBACK = -113
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    EPHEMERAL_ON_LOCAL_SESSION = -120
    NO_WATCHER = -121
    REQUEST_TIMEOUT = -122
    RECONFIG_DISABLED = -123
    SESSION_CLOSED_REQUIRE_SASL = -124
    QUOTA_EXCEEDED = -125
    THROTTLED = -127


class ZooKeeperError(Exception):
    """Base class: the ensemble rejected a request with an error, or sent no reply (ConnectionLoss)."""

    code = ErrorCode.SYSTEM_ERROR

    def __init__(self, path: str = "") -> None:
        super().__init__(f"{self.code.name}{' for ' + path if path else ''}")
        self.path = path


class ConnectionLoss(ZooKeeperError):
    """The connection broke before the reply arrived: the operation may or may not have been applied."""

    code = ErrorCode.CONNECTION_LOSS


class SessionExpired(ZooKeeperError):
    """The session has expired; its ephemerals were deleted."""

    code = ErrorCode.SESSION_EXPIRED


class NoNode(ZooKeeperError):
    """The znode does not exist."""

    code = ErrorCode.NO_NODE


class NodeExists(ZooKeeperError):
    """The znode exists already."""

    code = ErrorCode.NODE_EXISTS


class BadVersion(ZooKeeperError):
    """The znode's version differs from the expected version."""

    code = ErrorCode.BAD_VERSION


class NotEmpty(ZooKeeperError):
    """The znode has children."""

    code = ErrorCode.NOT_EMPTY


class NoChildrenForEphemerals(ZooKeeperError):
    """Ephemeral znodes cannot have children."""

    code = ErrorCode.NO_CHILDREN_FOR_EPHEMERALS


class NoAuth(ZooKeeperError):
    """The ACL does not allow the operation."""

    code = ErrorCode.NO_AUTH


class AuthFailed(ZooKeeperError):
    """The server rejected the credentials."""

    code = ErrorCode.AUTH_FAILED


class InvalidACL(ZooKeeperError):
    """The ACL is empty or malformed."""

    code = ErrorCode.INVALID_ACL


class BadArguments(ZooKeeperError):
    """The arguments of the request are invalid."""

    code = ErrorCode.BAD_ARGUMENTS


class RuntimeInconsistency(ZooKeeperError):
    """The operation failed because another operation of the same multi failed."""

    code = ErrorCode.RUNTIME_INCONSISTENCY


class NotReadOnly(ZooKeeperError):
    """The server has no leader and accepts only reads; this request is not a read."""

    code = ErrorCode.NOT_READ_ONLY


class EphemeralOnLocalSession(ZooKeeperError):
    """A local session cannot own ephemerals, and this ensemble does not upgrade local sessions."""

    code = ErrorCode.EPHEMERAL_ON_LOCAL_SESSION


class NoWatcher(ZooKeeperError):
    """There is no such watch to remove."""

    code = ErrorCode.NO_WATCHER


class QuotaExceeded(ZooKeeperError):
    """The operation would exceed a hard quota of the subtree."""

    code = ErrorCode.QUOTA_EXCEEDED


class Unimplemented(ZooKeeperError):
    """The server does not support this operation."""

    code = ErrorCode.UNIMPLEMENTED


class MarshallingError(ZooKeeperError):
    """The server could not parse the request."""

    code = ErrorCode.MARSHALLING_ERROR


class OtherError(ZooKeeperError):
    """An error code that has no exception class of its own."""

    def __init__(self, code: int, path: str = "") -> None:
        self.code = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.SYSTEM_ERROR
        super().__init__(path)


_BY_CODE: dict[int, type[ZooKeeperError]] = {t.code: t for t in ZooKeeperError.__subclasses__() if t is not OtherError}


def error_for(code: int, path: str = "") -> ZooKeeperError:
    """Return the exception for an error code."""
    found = _BY_CODE.get(code)
    return found(path) if found else OtherError(code, path)
