"""Read-only routes for journal events, znodes, and the tables that Spark builds."""

from __future__ import annotations

import base64
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from zabka.api.analytics.tables import read_table
from zabka.api.collector import event_models as events
from zabka.api.collector.collector import TooOld
from zabka.api.http.problems import Problem, responses
from zabka.api.services import Service
from zabka.api.views.ensemble_view import ZnodeReading
from zabka.api.views.models import Acl, Table, Znode, ZnodeStat

router = APIRouter(prefix="/api/v1")

_ARRAY: dict[int | str, dict[str, Any]] = {200: events.ARRAY}
_UNREADABLE: dict[int | str, dict[str, Any]] = {
    403: {**responses(403)[403], "description": "The znode's ACL does not allow reading it"}
}

After = Annotated[
    int | None, Query(ge=0, le=2**63, description="Only events after this number; 0 for all stored events")
]


@router.get(
    "/journal",
    tags=["journal"],
    summary="The journal as an array",
    response_class=Response,
    responses={**responses(410, 422), **_ARRAY},
)
async def get_journal(
    service: Service,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=events.LIMIT_MAX)] = events.LIMIT_DEFAULT,
    until: Annotated[
        int | None, Query(ge=0, le=2**63, description="Instead of `after`: the newest `limit` events up to this number")
    ] = None,
    not_types: Annotated[
        str, Query(max_length=1000, description="With `until`: leave these types out, by commas")
    ] = "",
) -> Response:
    """Return up to `limit` events after an event number or, with `until`, the newest events up to that number."""
    if until is not None:
        found = await events.newest(service.collector, until, limit, frozenset(not_types.split(",")))
        return Response(events.array(found), media_type="application/json")
    try:
        found = await events.some(service.collector, after or 0, limit)
    except TooOld as reason:
        raise events.too_old(reason) from None
    return Response(events.array(found), media_type="application/json")


@router.get("/znodes", tags=["ensemble"], summary="The root znode", responses={**responses(503), **_UNREADABLE})
async def get_root_znode(service: Service) -> Znode:
    """Return the root znode."""
    return _znode("/", await service.ensemble.znode("/"), await service.watchers("/"))


@router.get(
    "/znodes/{path:path}", tags=["ensemble"], summary="One znode", responses={**responses(404, 422, 503), **_UNREADABLE}
)
async def get_znode(path: str, service: Service) -> Znode:
    """Return a znode's data, Stat, children, ACL and watchers."""
    path = "/" + path.strip("/")
    if "//" in path or "\0" in path or any(part in (".", "..") for part in path.split("/")):
        raise Problem(422, f"{path!r} is no znode path")
    return _znode(path, await service.ensemble.znode(path), await service.watchers(path))


def _znode(path: str, found: ZnodeReading, watchers: list[str] | None) -> Znode:
    stat = found.stat
    try:
        text, encoding = found.data.decode(), "utf-8"
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(found.data).decode(), "base64"
    return Znode(
        path=path,
        data=text,
        encoding="utf-8" if encoding == "utf-8" else "base64",
        stat=ZnodeStat(
            czxid=stat.czxid, mzxid=stat.mzxid, ctime=stat.ctime, mtime=stat.mtime, version=stat.version,
            cversion=stat.cversion, aversion=stat.aversion, data_length=stat.data_length,
            ephemeral_owner=f"0x{stat.ephemeral_owner & 0xFFFFFFFFFFFFFFFF:x}", num_children=stat.num_children,
            pzxid=stat.pzxid,
        ),
        children=found.children,
        acl=[Acl(scheme=a.scheme, id=a.id, perms=int(a.perms)) for a in found.acl],
        watchers=watchers,
    )  # fmt: skip


@router.get(
    "/analytics/{table}",
    tags=["journal"],
    summary="A table that Spark builds from the journals",
    responses=responses(404, 422, 503),
)
async def get_table(table: str, service: Service, limit: Annotated[int, Query(ge=1, le=100_000)] = 1_000) -> Table:
    """Return the newest rows of a table such as controller_terms. `zabka pipeline tables` writes the tables."""
    return await read_table(service.settings.tables, service.settings.cluster_data, table, limit)
