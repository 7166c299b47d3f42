"""JSON models of jobs: the stream, an audit and a campaign that the API runs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from zabka.api.views.models import Body

JobKind = Literal["stream", "audit", "campaign"]
KINDS: tuple[JobKind, ...] = ("stream", "audit", "campaign")


class NewJob(Body):
    """A job to start. The stream and an audit need no members."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "name": "session-timeout",
                "definition": 'question = "Which zookeeper.session.timeout.ms?"\nscenario = "chaos"\nseeds = "1-8"\n'
                'decide = "failover_ms"\n\n[grid]\n"zookeeper.session.timeout.ms" = [6000, 18000]\n',
            }
        },
    )

    name: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9][a-z0-9-]{0,60}$",
        description="Campaigns only, required; the same name continues it",
    )
    definition: str | None = Field(
        default=None,
        max_length=20_000,
        description="Campaigns only, required: the content of the campaign's file (TOML)",
    )


class Job(BaseModel):
    """The last job of a kind. It is `idle` if none was started since the API started."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "kind": "audit", "state": "ended", "command": "zabka pipeline audit .zabka",
                "started_ms": 1700000000000, "ended_ms": 1700000021000, "exit_code": 0, "stopped": False,
                "tail": ["4 runs, 0 with violations; the table is .zabka/analytics/audits"],
            }
        }
    )  # fmt: skip

    kind: JobKind
    state: Literal["idle", "running", "stopping", "ended"]
    command: str | None = Field(description="The same job as a command")
    started_ms: int | None
    ended_ms: int | None
    exit_code: int | None = Field(description="1 if an invariant was violated; negative: ended by that signal")
    stopped: bool = Field(description="Whether a client stopped it")
    tail: list[str] = Field(description="The last 40 lines of its output")
