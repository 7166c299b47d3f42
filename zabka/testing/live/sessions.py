"""Ends a client's ZooKeeper session as if it had expired."""

from __future__ import annotations

import asyncio
import ssl

from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.hosts import parse_hosts
from zabka.ensemble.client.service import Connector
from zabka.ensemble.client.session import Session
from zabka.ensemble.errors import SessionExpired
from zabka.ensemble.ids import SessionId
from zabka.ensemble.ports import Runtime
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.ensemble.tree.sessions import password_of
from zabka.testing.cluster import ClusterFailed

ANSWER_S = 30.0


async def end_session(connect_string: str, session_id: int, tls: ssl.SSLContext | None = None) -> None:
    """End a session of a live ensemble. `tls` is the TLS context of its client ports.

    Raises ClusterFailed if there is no such session, or if the ensemble has no quorum.
    """
    runtime = AsyncioRuntime(asyncio.get_running_loop(), owns_loop=False)
    await take_over_and_close(connect_string, session_id, AsyncioConnector(ssl_context=tls), runtime)


async def take_over_and_close(connect_string: str, session_id: int, connector: Connector, runtime: Runtime) -> None:
    """Connect with the id and password of a client's session, and close the session.

    The servers then close the client's connection, and reply SessionExpired when the client reconnects. Curator's
    KillSession uses the same method. Raises ClusterFailed if there is no such session, or if the ensemble has no
    quorum.
    """
    servers, _ = parse_hosts(connect_string)
    resume = (session_id, password_of(SessionId(session_id)))
    session = Session(servers, connector, runtime, name="zabka-test-expiry", resume=resume)
    try:
        async with asyncio.timeout(ANSWER_S):
            session.open()
            await session.connected()
            await session.close()
    except SessionExpired:
        raise ClusterFailed(f"there is no session {session_id:#x}") from None
    except TimeoutError:
        raise ClusterFailed(f"no server answered within {ANSWER_S} s for session {session_id:#x}") from None
