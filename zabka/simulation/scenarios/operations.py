"""Operations that a step of a script can request from a ZooKeeper client.  Each returns its result as a string."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import Create, WatchEvent
from zabka.ensemble.records import ACL, Stat

READ_ALL = 31

Watcher = Callable[[WatchEvent], None]


async def _create(client: Client, path: str, data: str, watcher: Watcher) -> str:
    made: tuple[str, Stat] = await client.create(path, data.encode())
    return made[0]


async def _create_ephemeral(client: Client, path: str, data: str, watcher: Watcher) -> str:
    made: tuple[str, Stat] = await client.create(path, data.encode(), ephemeral=True)
    return made[0]


async def _create_both(client: Client, path: str, data: str, watcher: Watcher) -> str:
    await client.multi([Create(f"{path}-left", b""), Create(f"{path}-right", b"")])
    return "ok"


async def _set(client: Client, path: str, data: str, watcher: Watcher) -> str:
    await client.set(path, data.encode())
    return "ok"


async def _restrict(client: Client, path: str, data: str, watcher: Watcher) -> str:
    await client.set_acl(path, [ACL(READ_ALL, "world", "anyone"), ACL(1, "digest", f"{data}:made-up")])
    return "ok"


async def _acl(client: Client, path: str, data: str, watcher: Watcher) -> str:
    entries, _ = await client.get_acl(path)
    return " ".join(f"{entry.scheme}:{entry.perms}" for entry in entries)


async def _delete(client: Client, path: str, data: str, watcher: Watcher) -> str:
    await client.delete(path)
    return "ok"


async def _get(client: Client, path: str, data: str, watcher: Watcher) -> str:
    found: tuple[bytes, Stat] = await client.get(path)
    return found[0].decode()


async def _exists(client: Client, path: str, data: str, watcher: Watcher) -> str:
    return "no" if await client.exists(path) is None else "yes"


async def _watch(client: Client, path: str, data: str, watcher: Watcher) -> str:
    return "no" if await client.exists(path, watcher) is None else "yes"


async def _watch_many(client: Client, path: str, data: str, watcher: Watcher) -> str:
    """Set watches on as many paths as `data` states.

    Each path has about 3,000 characters, so that the watches do not fit into one packet.
    """
    for number in range(int(data)):
        await client.exists(f"{path}/{number}-{'x' * 3_000}", watcher)
    return "ok"


async def _children(client: Client, path: str, data: str, watcher: Watcher) -> str:
    return " ".join(await client.get_children(path))


async def _pairs(client: Client, path: str, data: str, watcher: Watcher) -> str:
    """Return `whole` if every znode NAME-left has its pair NAME-right and vice versa, else `torn`."""
    names = await client.get_children(path)
    ends = {end: {name.removesuffix(end) for name in names if name.endswith(end)} for end in ("-left", "-right")}
    return "whole" if ends["-left"] == ends["-right"] else "torn"


async def _stat(client: Client, path: str, data: str, watcher: Watcher) -> str:
    stat = await client.exists(path)
    if stat is None:
        return "no"
    return f"czxid {stat.czxid:x} mzxid {stat.mzxid:x} pzxid {stat.pzxid:x} cversion {stat.cversion}"


async def _sync(client: Client, path: str, data: str, watcher: Watcher) -> str:
    await client.sync("/")
    return "ok"


async def _close(client: Client, path: str, data: str, watcher: Watcher) -> str:
    await client.close()
    return "ok"


OPERATIONS: dict[str, Callable[[Client, str, str, Watcher], Awaitable[str]]] = {
    "create": _create,
    "create_ephemeral": _create_ephemeral,
    "create_both": _create_both,
    "set": _set,
    "restrict": _restrict,
    "acl": _acl,
    "delete": _delete,
    "get": _get,
    "exists": _exists,
    "watch": _watch,
    "watch_many": _watch_many,
    "children": _children,
    "pairs": _pairs,
    "stat": _stat,
    "sync": _sync,
    "close": _close,
}
"""Operations by name.

`create_both` is a multi of two creates; `stat` returns the stat fields that are equal on all peers.
"""
