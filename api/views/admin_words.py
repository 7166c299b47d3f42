"""Asking peers with ZooKeeper's four-letter admin words."""

from __future__ import annotations

import asyncio
import contextlib

ANSWER_BYTES_MAX = 4 * 1024 * 1024
TIMEOUT_S = 0.5


async def ask(host: str, port: int, word: str) -> str | None:
    """A peer's answer to an admin word; None where it does not answer."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(word.encode())
                parts = []
                size = 0
                while (part := await reader.read(65_536)) and size <= ANSWER_BYTES_MAX:
                    parts.append(part)
                    size += len(part)
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError):
        return None
    return b"".join(parts).decode("utf-8", "replace")


async def watchers(connect: str, path: str) -> list[str] | None:
    """The sessions watching a znode, over all peers of a connect string; None where no peer knows `wchp`."""
    peers = [address.rpartition(":") for address in connect.partition("/")[0].split(",")]
    answers = await asyncio.gather(*(ask(host.strip("[]"), int(port), "wchp") for host, _, port in peers))
    told = [sessions_of(answer, path) for answer in answers if answer is not None and is_watch_list(answer)]
    return sorted({s for sessions in told for s in sessions}) if told else None


def is_watch_list(answer: str) -> bool:
    """Whether this is an answer to `wchp`, and not the refusal of a word that is not whitelisted."""
    # Brokers and the controller always watch something: no answer at all is no list.  What comes behind the first path
    # says nothing: a path may hold what ends a line.
    return answer.startswith("/")


def sessions_of(answer: str, path: str) -> list[str]:
    """The sessions under one path of `wchp`'s answer: a line for the path, then one indented line a session."""
    found = []
    at = ""
    # Its lines end so, and not as those of a text do: U+2028, for one, may stand in a path.
    for line in answer.split("\n"):
        if line.startswith("\t"):
            if at == path:
                found.append(line.strip())
        else:
            at = line
    return found
