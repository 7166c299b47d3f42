"""The background thread of `zabka.ensemble.client.kazoo.KazooClient`, with one event loop and one `Session`.

Contains no protocol logic. Everything except `submit`, `start` and `stop` runs on that thread.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.sasl import SaslLogin
from zabka.ensemble.client.service import SessionState, WatchEvent
from zabka.ensemble.client.session import Session
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime

Work = Callable[[Session], object]


class EngineSettings:
    """Arguments for the sessions that the engine opens."""

    def __init__(
        self,
        *,
        servers: Sequence[str],
        timeout_ms: int,
        shuffle: bool,
        read_only: bool,
        attempts_max: int,
        resume: tuple[int, bytes] | None,
        auths: Sequence[tuple[str, bytes]],
        login: SaslLogin | None,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self.servers = servers
        self.timeout_ms = timeout_ms
        self.shuffle = shuffle
        self.read_only = read_only
        self.attempts_max = attempts_max
        self.resume = resume
        self.auths = auths
        self.login = login
        self.ssl_context = ssl_context


class Engine:
    """A session on its own thread, which runs from `start` to `stop`.

    `on_state(session, state)` and `on_event(event)` are called on that thread. `on_failure(name, exception)` receives
    an exception that a callback did not catch. After expiry a new session is opened at once, as kazoo does.
    """

    def __init__(
        self,
        settings: EngineSettings,
        *,
        on_state: Callable[[Session, SessionState], None],
        on_event: Callable[[WatchEvent], None],
        on_failure: Callable[[str, BaseException], None],
    ) -> None:
        self._settings = settings
        self._on_state = on_state
        self._on_event = on_event
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._work: deque[Work] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: Session | None = None
        self._runtime: AsyncioRuntime | None = None
        self._stopping = asyncio.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="zookeeper-client", daemon=True)

    # -- callable from any thread

    def start(self) -> None:
        """Start the thread, and begin to connect."""
        self._thread.start()

    def submit(self, work: Work) -> bool:
        """Run `work(session)` on the engine's thread, in the order of the `submit` calls.

        Return False if the engine has ended.
        """
        with self._lock:
            if self._ended:
                return False
            waking = not self._work and self._loop is not None
            self._work.append(work)
            loop = self._loop
        if waking:
            assert loop is not None
            try:
                loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the loop closed in between; `_end` has completed the queued calls
                return True
        return True

    def stop(self, timeout_s: float) -> bool:
        """Close the session and end the thread; return False if the thread is still running after `timeout_s`."""
        self.submit(lambda session: self._stopping.set())
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def server(self) -> str:
        """Address of the server that the session is connected to, or tried last."""
        return self._session.server if self._session is not None else ""

    @property
    def last_zxid(self) -> int:
        """Highest zxid in any reply that the session received."""
        return self._session.last_zxid if self._session is not None else 0

    # -- on the engine's thread

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine as a task on the engine's event loop."""
        assert self._runtime is not None
        self._runtime.spawn(coroutine, name)

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        settings = self._settings
        runtime = self._runtime = AsyncioRuntime(loop, on_failure=self._on_failure)
        connector = AsyncioConnector(ssl_context=settings.ssl_context)
        session = self._session = Session(
            settings.servers,
            connector,
            runtime,
            session_timeout_ms=settings.timeout_ms,
            shuffle=settings.shuffle,
            read_only=settings.read_only,
            asker=connector,
            login=settings.login,
            attempts_max=settings.attempts_max,
            resume=settings.resume,
            on_event=self._on_event,
        )
        for scheme, credential in settings.auths:
            session.add_auth(scheme, credential)
        session.add_listener(self._on_session_state)
        session.open()
        with self._lock:
            self._loop = loop
        try:
            self._drain()
            await self._stopping.wait()
            # If the session is connected, wait for the reply to closeSession; otherwise do not wait, as kazoo's stop
            # does.
            connected = session.is_connected
            await session.close(settings.timeout_ms if connected else 0)
        finally:
            await self._end(session, runtime)

    async def _end(self, session: Session, runtime: AsyncioRuntime) -> None:
        with self._lock:
            self._ended = True
        self._drain()  # the session is closed, so queued calls fail with that
        # Wait for the tasks instead of cancelling them; otherwise their callers would wait for ever.
        await runtime.finish_all()
        self._on_state(session, SessionState.CLOSED)

    def _drain(self) -> None:
        session = self._session
        assert session is not None
        while True:
            with self._lock:
                if not self._work:
                    return
                work = self._work.popleft()
            try:
                work(session)
            except Exception as wrong:
                self._on_failure("request", wrong)

    def _on_session_state(self, state: SessionState) -> None:
        session = self._session
        assert session is not None and self._loop is not None
        self._on_state(session, state)
        if state is SessionState.EXPIRED:
            self._loop.call_soon(session.reopen)
