"""The records of the ZooKeeper client protocol (zookeeper.jute, org.apache.zookeeper.proto and .data).

A client's first frame is a ConnectRequest; every later frame is a request header (xid, op code) and the op's body. A
reply frame is a header (xid, zxid, err) and, if err is 0, the op's response. `Request` and `Reply` are these frames as
typed objects; the simulated network passes the same objects.

Other packages import the records from this package itself, as listed below, and not from its modules. It depends on
`zabka.ensemble.jute` and `zabka.ensemble.errors`, and any package may import it. To learn the code, read `op_codes`
first, then `requests` and `responses`; `bodies` maps op codes to records.
"""

from __future__ import annotations

from zabka.ensemble.records.auth import AuthPacket, SaslRequest, SaslResponse
from zabka.ensemble.records.bodies import REQUEST_BODIES, RESPONSE_BODIES, WRITES, AnyBody, AnyResponse
from zabka.ensemble.records.connect import ConnectRequest, ConnectResponse
from zabka.ensemble.records.creates import CREATES, Create2Response, CreateRequest, CreateResponse, CreateTTLRequest
from zabka.ensemble.records.data import (
    ACL,
    ACLS,
    OPEN_ACL,
    OPEN_ACL_BYTES,
    STAT,
    STAT_SIZE,
    STRINGS,
    Stat,
    pack_stat,
)
from zabka.ensemble.records.frames import (
    REPLY_HEADER_SIZE,
    REQUEST_HEADER_SIZE,
    ClientMessage,
    Frames,
    Reply,
    ReplyFrames,
    Request,
    ServerMessage,
)
from zabka.ensemble.records.multi import (
    MULTI_BODIES,
    MULTI_RESPONSES,
    MultiOp,
    MultiReadRequest,
    MultiRequest,
    MultiResponse,
    MultiResult,
)
from zabka.ensemble.records.op_codes import (
    AUTH_XID,
    NOTIFICATION_XID,
    PING_XID,
    SET_WATCHES_XID,
    CreateFlag,
    EventType,
    KeeperState,
    OpCode,
    Permission,
)
from zabka.ensemble.records.requests import (
    CheckVersionRequest,
    DeleteRequest,
    EmptyRequest,
    PathRequest,
    PathWatchRequest,
    ReconfigRequest,
    SetACLRequest,
    SetDataRequest,
)
from zabka.ensemble.records.responses import (
    GetACLResponse,
    GetChildren2Response,
    GetChildrenResponse,
    GetDataResponse,
    StatResponse,
    SyncResponse,
    WatcherEvent,
)
from zabka.ensemble.records.watches import (
    AddWatchMode,
    AddWatchRequest,
    ClientInfo,
    ErrorResponse,
    GetAllChildrenNumberResponse,
    GetEphemeralsResponse,
    SetWatches,
    SetWatches2,
    WatcherType,
    WatchesRequest,
    WhoAmIResponse,
)

__all__ = [
    "ACL",
    "ACLS",
    "AUTH_XID",
    "CREATES",
    "MULTI_BODIES",
    "MULTI_RESPONSES",
    "NOTIFICATION_XID",
    "OPEN_ACL",
    "OPEN_ACL_BYTES",
    "PING_XID",
    "REPLY_HEADER_SIZE",
    "REQUEST_BODIES",
    "REQUEST_HEADER_SIZE",
    "RESPONSE_BODIES",
    "SET_WATCHES_XID",
    "STAT",
    "STAT_SIZE",
    "STRINGS",
    "WRITES",
    "AddWatchMode",
    "AddWatchRequest",
    "AnyBody",
    "AnyResponse",
    "AuthPacket",
    "CheckVersionRequest",
    "ClientInfo",
    "ClientMessage",
    "ConnectRequest",
    "ConnectResponse",
    "Create2Response",
    "CreateFlag",
    "CreateRequest",
    "CreateResponse",
    "CreateTTLRequest",
    "DeleteRequest",
    "EmptyRequest",
    "ErrorResponse",
    "EventType",
    "Frames",
    "GetACLResponse",
    "GetAllChildrenNumberResponse",
    "GetChildren2Response",
    "GetChildrenResponse",
    "GetDataResponse",
    "GetEphemeralsResponse",
    "KeeperState",
    "MultiOp",
    "MultiReadRequest",
    "MultiRequest",
    "MultiResponse",
    "MultiResult",
    "OpCode",
    "PathRequest",
    "PathWatchRequest",
    "Permission",
    "ReconfigRequest",
    "Reply",
    "ReplyFrames",
    "Request",
    "SaslRequest",
    "SaslResponse",
    "ServerMessage",
    "SetACLRequest",
    "SetDataRequest",
    "SetWatches",
    "SetWatches2",
    "Stat",
    "StatResponse",
    "SyncResponse",
    "WatcherEvent",
    "WatcherType",
    "WatchesRequest",
    "WhoAmIResponse",
    "pack_stat",
]
