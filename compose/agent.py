"""The host agent: owns one host's node processes and does to them what the API asks.

One a host: one in all for local processes, the first process of each container otherwise.  It listens on a port of its
own and wants a bearer token, which is kept in a file that only its user reads.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import uvicorn
from fastapi import FastAPI, Query, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.agent_protocol import ACTIONS, FaultState, JournalRequest, Refusal
from api.bounded_http import BodyLimit, BoundedConnection
from compose.files import TOKEN_FILE, AgentConfig
from compose.host import Host
from compose.processes import NotNow
from compose.topology import BadTopology, Topology, load

BODY_BYTES_MAX = 4 * 1024 * 1024

S = TypeVar("S", bound=msgspec.Struct)


class _Guard:
    """ASGI middleware that wants the agent's bearer token before anything of a request is read."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/healthz":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not secrets.compare_digest(given, self._expected):
                await _problem(Refusal(401, "Unauthorized", "this agent wants its bearer token"))(scope, receive, send)
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


def create_app(host: Host, token: str) -> FastAPI:
    """The agent's HTTP application; starting and stopping it starts and stops the host's processes."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await host.start()
        yield
        await host.stop()

    app = FastAPI(title="zabka host agent", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BodyLimit, bytes_max=BODY_BYTES_MAX)
    app.add_middleware(_Guard, token=token)

    @app.exception_handler(_Refused)
    async def refused(_: Request, exc: _Refused) -> Response:
        return _problem(exc.refusal)

    @app.get("/healthz")
    async def healthz() -> Response:
        if reason := host.trouble():
            return _problem(Refusal(503, "Not healthy", reason))
        return _json({"status": "ok", "host": host.spec.name})

    @app.get("/v1/snapshot")
    async def snapshot(fresh_ms: Annotated[int, Query(ge=0, le=1_000)] = 0) -> Response:
        if fresh_ms:
            await host.refresh(fresh_ms / 1000)
        return _json(host.snapshot())

    @app.post("/v1/processes/{name}/{action}")
    async def act(name: str, action: str) -> Response:
        if name not in host.processes or action not in ACTIONS:
            raise _Refused(404, "Not found", f"no process {name} here, or no action {action}")
        try:
            return _json(await host.act(name, action), 202)
        except NotNow as reason:
            raise _Refused(409, "Not now", str(reason)) from None
        except OSError as reason:
            raise _Refused(500, "Could not be done", f"{action} {name}: {reason}") from None

    @app.post("/v1/journal")
    async def journal(request: Request) -> Response:
        return _json(await host.read_journals(await _body(request, JournalRequest)))

    @app.get("/v1/faults")
    async def faults() -> Response:
        return _json(FaultState(host.faults))

    @app.put("/v1/faults")
    async def set_faults(request: Request) -> Response:
        await host.set_faults((await _body(request, FaultState)).faults)
        return _json(FaultState(host.faults))

    return app


def load_agent(config: Path) -> tuple[Topology, AgentConfig]:
    """Read an agent's configuration and its topology.  Raises BadTopology."""
    wanted = msgspec.json.decode(config.read_bytes(), type=AgentConfig)
    topology = load(Path(wanted.data))
    if topology is None:
        raise BadTopology(f"there is no topology in {wanted.data}")
    return topology, wanted


def main(config: Path) -> int:
    """Run an agent in the foreground until SIGTERM or SIGINT; the process's exit code."""
    try:
        topology, wanted = load_agent(config)
    except (BadTopology, OSError, msgspec.MsgspecError) as reason:
        print(f"zabka: {reason}", file=sys.stderr)  # noqa: T201
        return 1
    data = Path(wanted.data)
    spec = next(h for h in topology.hosts if h.name == wanted.host)
    token = (topology.tokens(data) / TOKEN_FILE).read_text().strip()
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(Host(topology, spec, data), token),
            host=spec.agent_bind,
            port=spec.agent_port,
            log_level="warning",
            access_log=False,
            loop="asyncio",
            timeout_graceful_shutdown=1,
            timeout_keep_alive=60,
            http=BoundedConnection,
            ws="none",
        )
    )
    # The server raises the signal that ended it once more when all is done: that would be an end by signal, not code 0.
    signal.signal(signal.SIGTERM, lambda *_: None)
    server.run()
    return 0 if server.started else 1
