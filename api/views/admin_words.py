"""ZooKeeper's four-letter admin commands, sent to peers."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Collection

from zabka.ensemble.runtime.disconnect import disconnect

ANSWER_BYTES_MAX = 4 * 1024 * 1024
TIMEOUT_S = 0.5


async def ask(host: str, port: int, word: str, tls: ssl.SSLContext | None = None) -> str | None:
    """Return a peer's reply to an admin command, sent over TLS if there is a context; None if it does not reply."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            try:
                writer.write(word.encode())
                parts = []
                size = 0
                while (part := await reader.read(65_536)) and size <= ANSWER_BYTES_MAX:
                    parts.append(part)
                    size += len(part)
            finally:
                disconnect(writer.transport)
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError):
        return None
    return b"".join(parts).decode("utf-8", "replace")


async def watchers(connect: str, path: str, tls: ssl.SSLContext | None = None) -> list[str] | None:
    """Return the sessions that watch a znode, collected from all peers of a connect string.

    Return None if no peer supports `wchp`.
    """
    peers = [address.rpartition(":") for address in connect.partition("/")[0].split(",")]
    answers = await asyncio.gather(*(ask(host.strip("[]"), int(port), "wchp", tls) for host, _, port in peers))
    found = [sessions_of(answer, path) for answer in answers if answer is not None and is_watch_list(answer)]
    return sorted({s for sessions in found for s in sessions}) if found else None


async def settings(connect: str, keys: Collection[str], tls: ssl.SSLContext | None = None) -> dict[str, str]:
    """Return these settings from the first peer of a connect string that replies to `conf`; empty if none does."""
    for address in connect.partition("/")[0].split(","):
        host, _, port = address.rpartition(":")
        found = await ask(host.strip("[]"), int(port), "conf", tls)
        rows = [line.partition("=") for line in (found or "").splitlines()]
        if settings := {key: value for key, equals, value in rows if equals and key in keys}:
            return settings
    return {}


def is_watch_list(answer: str) -> bool:
    """Return whether a peer's reply is a list of watches, not the error for a command that is not whitelisted."""
    # A list of watches begins with a path. An empty reply is an error, because brokers and the controller always
    # watch something. Only the first character is checked, because a path may contain line breaks.
    return answer.startswith("/")


def sessions_of(answer: str, path: str) -> list[str]:
    """Return the sessions that a `wchp` reply lists for one path.

    For each path, the reply has a line with the path, followed by one indented line per session.
    """
    found = []
    at = ""
    # Only "\n" ends a line here: `splitlines` would also split at U+2028, for example, which a path may contain.
    for line in answer.split("\n"):
        if line.startswith("\t"):
            if at == path:
                found.append(line.strip())
        else:
            at = line
    return found
