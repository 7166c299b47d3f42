"""The JSON shapes of a znode: its data, its Stat and its access list."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Acl(BaseModel):
    """One entry of a znode's access list."""

    scheme: str
    id: str
    perms: int


class ZnodeStat(BaseModel):
    """A znode's Stat, by ZooKeeper's field names."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: str = Field(description="The session, hexadecimal; 0x0 for a persistent znode")
    data_length: int
    num_children: int
    pzxid: int


class Znode(BaseModel):
    """One znode."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "path": "/controller_epoch", "data": "3", "encoding": "utf-8", "children": [],
        "stat": {"czxid": 20, "mzxid": 95, "ctime": 1700000000000, "mtime": 1700000009000, "version": 3, "cversion": 0,
              "aversion": 0, "ephemeral_owner": "0x0", "data_length": 1, "num_children": 0, "pzxid": 20},
        "acl": [{"scheme": "world", "id": "anyone", "perms": 31}], "watchers": ["0x100000a2c3d0001"],
    }})  # fmt: skip

    path: str
    data: str | None
    encoding: Literal["utf-8", "base64"]
    stat: ZnodeStat
    children: list[str]
    acl: list[Acl]
    watchers: list[str] | None = Field(description="Sessions that watch it; null if no peer responds")
