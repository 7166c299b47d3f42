"""The host agent: runs the node processes of one host and performs the API's actions on them.

There is one agent per host. A cluster of local processes has a single agent; with containers, the agent is the first
process of each container. An agent listens on its own port and requires a bearer token, which is stored in a file that
only the user who runs the agent can read.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from zabka.agent.bounded_http import BodyLimit, BoundedConnection
from zabka.agent.protocol import FaultState, JournalRequest, NodeAction, Refusal, requester_named
from zabka.agent.quiet_server import QuietServer
from zabka.agent.token_file import read_token
from zabka.compose.files import TOKEN_FILE, AgentConfig
from zabka.compose.host import Fork, Host
from zabka.compose.processes import NotNow
from zabka.compose.topology import BadTopology, Topology, load

BODY_BYTES_MAX = 4 * 1024 * 1024
FRESH_MS_MAX = 1_000

S = TypeVar("S", bound=msgspec.Struct)


class _Guard:
    """ASGI middleware that checks the agent's bearer token before it reads a request's body."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in ("/healthz", "/livez"):
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not secrets.compare_digest(given, self._expected):
                await _problem(Refusal(401, "Unauthorized", "this agent requires its bearer token"))(
                    scope, receive, send
                )
                return
        await self._app(scope, receive, send)


class _Refused(Exception):
    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.refusal = Refusal(status, title, detail)


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _problem(refusal: Refusal) -> Response:
    return Response(msgspec.json.encode(refusal), refusal.status, media_type="application/problem+json")


async def _body(request: Request, shape: type[S]) -> S:
    try:
        return msgspec.json.decode(await request.body(), type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as bad:
        raise _Refused(422, "Bad request body", str(bad)) from None


class _Calls:
    """The agent's HTTP endpoints, which the API calls."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Route]:
        return [
            Route("/healthz", self.healthz),
            Route("/livez", self.livez),
            Route("/v1/snapshot", self.snapshot),
            Route("/v1/processes/{name}/{action}", self.process_action, methods=["POST"]),
            Route("/v1/journal", self.journal, methods=["POST"]),
            Route("/v1/messages", self.messages, methods=["POST"]),
            Route("/v1/faults", self.faults),
            Route("/v1/faults", self.set_faults, methods=["PUT"]),
        ]

    async def healthz(self, _: Request) -> Response:
        if reason := self._host.trouble():
            return _problem(Refusal(503, "Not healthy", reason))
        return await self.livez(_)

    async def livez(self, _: Request) -> Response:
        # Report healthy even if nodes are down, because a restart of the agent would kill the running nodes.
        return _json({"status": "ok", "host": self._host.spec.name})

    async def snapshot(self, request: Request) -> Response:
        fresh_ms = _fresh_ms(request.query_params.get("fresh_ms", "0"))
        if fresh_ms:
            await self._host.refresh(fresh_ms / 1000)
        return _json(self._host.snapshot())

    async def process_action(self, request: Request) -> Response:
        name, action = request.path_params["name"], request.path_params["action"]
        if name not in self._host.processes or action not in list(NodeAction):
            raise _Refused(404, "Not found", f"no process {name} here, or no action {action}")
        requester = requester_named(request.query_params.get("requester", ""))
        try:
            return _json(await self._host.apply_action(name, NodeAction(action), requester), 202)
        except NotNow as reason:
            raise _Refused(409, "Not now", str(reason)) from None
        except OSError as reason:
            raise _Refused(500, "Could not be done", f"{action} {name}: {reason}") from None

    async def journal(self, request: Request) -> Response:
        return _json(await self._host.read_journals(await _body(request, JournalRequest)))

    async def messages(self, request: Request) -> Response:
        return _json(self._host.read_messages(await _body(request, JournalRequest)))

    async def faults(self, _: Request) -> Response:
        return _json(FaultState.of(self._host.faults))

    async def set_faults(self, request: Request) -> Response:
        state = await _body(request, FaultState)
        await self._host.set_faults(state.all, whole=state.whole)
        return await self.faults(request)


def _fresh_ms(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and int(text) <= FRESH_MS_MAX):
        raise _Refused(422, "Bad question", f"fresh_ms is between 0 and {FRESH_MS_MAX}, not {text[:20]!r}")
    return int(text)


def create_app(host: Host, token: str) -> Starlette:
    """Return the agent's HTTP application. The host's processes start and stop together with the application."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await host.start()
        yield
        await host.stop()

    async def refused(_: Request, exc: Exception) -> Response:
        assert isinstance(exc, _Refused)
        return _problem(exc.refusal)

    return Starlette(
        routes=_Calls(host).routes(),
        lifespan=lifespan,
        # The token is checked before the body is read.
        middleware=[Middleware(_Guard, token=token), Middleware(BodyLimit, bytes_max=BODY_BYTES_MAX)],
        exception_handlers={_Refused: refused},
    )


def load_agent(config: Path) -> tuple[Topology, AgentConfig]:
    """Read an agent's configuration and its topology. Raises BadTopology, OSError."""
    try:
        agent_config = msgspec.json.decode(config.read_bytes(), type=AgentConfig)
    except msgspec.MsgspecError as reason:
        raise BadTopology(f"{config} is not an agent.json: {reason}") from None
    topology = load(Path(agent_config.data))
    if topology is None:
        raise BadTopology(f"there is no topology in {agent_config.data}")
    if agent_config.host not in [host.name for host in topology.hosts]:
        raise BadTopology(
            f"{config} names host {agent_config.host}, which the topology in {agent_config.data} does not have"
        )
    return topology, agent_config


def main(config: Path) -> int:
    """Run an agent in the foreground until SIGTERM or SIGINT. Return the exit code."""
    try:
        topology, agent_config = load_agent(config)
        data = Path(agent_config.data)
        token = read_token(topology.tokens(data) / TOKEN_FILE)
    except (BadTopology, OSError) as reason:
        print(f"zabka: {reason}", file=sys.stderr)  # noqa: T201
        return 1
    spec = next(h for h in topology.hosts if h.name == agent_config.host)
    fork: Fork | None = None
    if agent_config.preloads:
        from zabka.compose.forked import fork
    host = Host(topology, spec, data, fork)
    # During the shutdown, the server still sends the nodes' last events to the API.
    server = QuietServer(
        uvicorn.Config(
            create_app(host, token),
            host=spec.agent_bind,
            port=spec.agent_port,
            log_level="warning",
            access_log=False,
            loop="asyncio",
            timeout_graceful_shutdown=1,
            timeout_keep_alive=60,
            http=BoundedConnection,
            ws="none",
        ),
        host.stop,
    )
    # After its shutdown, uvicorn raises the received signal again. Ignore the signal then, so that the exit code is 0.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    server.run()
    return 0 if server.started else 1
