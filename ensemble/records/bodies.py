"""Tables from op codes to the records of request and reply bodies, and the set of write ops."""

from __future__ import annotations

from zabka.ensemble.jute import Record
from zabka.ensemble.records.auth import AuthPacket, SaslRequest, SaslResponse
from zabka.ensemble.records.creates import CREATES
from zabka.ensemble.records.multi import MultiReadRequest, MultiRequest, MultiResponse
from zabka.ensemble.records.op_codes import OpCode
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
)
from zabka.ensemble.records.watches import (
    AddWatchRequest,
    ErrorResponse,
    GetAllChildrenNumberResponse,
    GetEphemeralsResponse,
    SetWatches,
    SetWatches2,
    WatchesRequest,
    WhoAmIResponse,
)

AnyBody = Record | MultiRequest
AnyResponse = Record | MultiResponse
REQUEST_BODIES: dict[int, type[Record] | type[MultiRequest]] = {
    **{op: made.request for op, made in CREATES.items()},
    OpCode.DELETE: DeleteRequest,
    OpCode.DELETE_CONTAINER: PathRequest,
    OpCode.EXISTS: PathWatchRequest,
    OpCode.GET_DATA: PathWatchRequest,
    OpCode.SET_DATA: SetDataRequest,
    OpCode.GET_ACL: PathRequest,
    OpCode.SET_ACL: SetACLRequest,
    OpCode.GET_CHILDREN: PathWatchRequest,
    OpCode.GET_CHILDREN2: PathWatchRequest,
    OpCode.SYNC: PathRequest,
    OpCode.PING: EmptyRequest,
    OpCode.RECONFIG: ReconfigRequest,
    OpCode.CHECK: CheckVersionRequest,
    OpCode.MULTI: MultiRequest,
    OpCode.AUTH: AuthPacket,
    OpCode.SASL: SaslRequest,
    OpCode.SET_WATCHES: SetWatches,
    OpCode.SET_WATCHES2: SetWatches2,
    OpCode.ADD_WATCH: AddWatchRequest,
    OpCode.CHECK_WATCHES: WatchesRequest,
    OpCode.REMOVE_WATCHES: WatchesRequest,
    OpCode.MULTI_READ: MultiReadRequest,
    OpCode.GET_EPHEMERALS: PathRequest,
    OpCode.GET_ALL_CHILDREN_NUMBER: PathRequest,
    OpCode.WHO_AM_I: EmptyRequest,
    OpCode.CLOSE_SESSION: EmptyRequest,
}
RESPONSE_BODIES: dict[int, type[Record] | type[MultiResponse]] = {
    **{op: made.response for op, made in CREATES.items()},
    OpCode.EXISTS: StatResponse,
    OpCode.GET_DATA: GetDataResponse,
    OpCode.SET_DATA: StatResponse,
    OpCode.GET_ACL: GetACLResponse,
    OpCode.SET_ACL: StatResponse,
    OpCode.GET_CHILDREN: GetChildrenResponse,
    OpCode.GET_CHILDREN2: GetChildren2Response,
    OpCode.SYNC: SyncResponse,
    OpCode.RECONFIG: GetDataResponse,
    OpCode.MULTI: MultiResponse,
    OpCode.MULTI_READ: MultiResponse,
    OpCode.ADD_WATCH: ErrorResponse,
    OpCode.GET_EPHEMERALS: GetEphemeralsResponse,
    OpCode.GET_ALL_CHILDREN_NUMBER: GetAllChildrenNumberResponse,
    OpCode.WHO_AM_I: WhoAmIResponse,
    OpCode.SASL: SaslResponse,
}
WRITES = frozenset(
    {
        *map(OpCode, CREATES), OpCode.DELETE, OpCode.SET_DATA, OpCode.SET_ACL, OpCode.MULTI, OpCode.CHECK,
        OpCode.RECONFIG, OpCode.DELETE_CONTAINER, OpCode.CREATE_SESSION, OpCode.CLOSE_SESSION,
    }
)  # fmt: skip
"""Op codes of the requests that become transactions (PrepRequestProcessor)."""
