"""The route that returns the messages between the processes of a run."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from zabka.api.http.problems import Problem, responses
from zabka.api.routes.runs import RunId
from zabka.api.runs.messages import Window
from zabka.api.services import Service
from zabka.journal.messages import CLASSES

router = APIRouter(prefix="/api/v1", tags=["runs"])
LIMIT_DEFAULT, LIMIT_MAX = 1_000, 20_000

EXAMPLE: dict[str, Any] = {
    "messages": [
        {
            "id": 1887, "sent_us": 1700000006515530, "arrived_us": 1700000006515953, "from": "broker-2",
            "to": "broker-4", "class": "controller", "kind": "LeaderAndIsr",
            "subject": {"controller_id": 2, "controller_epoch": 1, "names": ["orders-0 leader 3 epoch 1 isr 3,4"]},
            "bytes": None, "answers": None, "lost": None,
        }
    ],
    "hidden": {"ping": 12, "fetch": 3},
    "truncated": False,
}  # fmt: skip


class MessageShape(BaseModel):
    """One message between two processes."""

    model_config = ConfigDict(populate_by_name=True)

    id: int = Field(description="Position among the run's messages; in the live run, among those known so far")
    sent_us: int
    arrived_us: int | None = Field(
        description="Time at which the receiver took it; null if it did not, or if the time is unknown"
    )
    source: str = Field(alias="from")
    target: str = Field(alias="to")
    group: str = Field(alias="class", description=f"One of {', '.join(CLASSES)}")
    kind: str = Field(
        description="Name in the protocol, such as PROPOSAL or LeaderAndIsr; a response ends with `answer`"
    )
    subject: dict[str, Any]
    bytes: int | None = None
    answers: int | None = Field(default=None, description="Id of its request, if the message is a response")
    lost: str | None = Field(default=None, description="Why it did not arrive, or why its times are doubtful")


class MessagesAnswer(BaseModel):
    """The messages in a time window, and the number of omitted messages."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    messages: list[MessageShape]
    hidden: dict[str, int] = Field(description="Number of further messages in the window, by class")
    truncated: bool = Field(description="Whether more than `limit` messages matched")


@router.get(
    "/runs/{id}/messages",
    summary="Messages between nodes",
    response_model=MessagesAnswer,
    responses=responses(404, 422),
)
async def get_messages(
    id: RunId,
    service: Service,
    from_us: Annotated[int, Query(ge=0, le=2**63)] = 0,
    to_us: Annotated[int, Query(ge=0, le=2**63)] = 2**63 - 1,
    classes: Annotated[str, Query(max_length=500, description="Comma-separated; default: all")] = "",
    limit: Annotated[int, Query(ge=0, le=LIMIT_MAX)] = LIMIT_DEFAULT,
) -> Response:
    """Return the messages between two times of the run's clock, earliest first.

    Every message of that time is in the response or counted in `hidden`. For the live run, these are the messages that
    nodes have logged (`zabka.messages`). Sender and receiver both log a message, and the two log entries are combined.
    If only the sender or only the receiver has logged a message, its field `lost` is set accordingly.
    """
    requested = frozenset(each for each in classes.split(",") if each)
    if unknown := sorted(requested - set(CLASSES)):
        raise Problem(422, f"there is no class {unknown[0]}; there are {', '.join(CLASSES)}")
    selected = await service.messages.select(id, Window(from_us, to_us, requested, limit))
    return Response(msgspec.json.encode(selected._asdict()), media_type="application/json")
