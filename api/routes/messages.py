"""The route of what was said between the processes of a run."""

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

    id: int = Field(description="Its place among the run's messages; of the live run, as far as they are known by now")
    sent_us: int
    arrived_us: int | None = Field(description="When the receiver took it; null where it did not, or nobody knows")
    source: str = Field(alias="from")
    target: str = Field(alias="to")
    group: str = Field(alias="class", description=f"One of {', '.join(CLASSES)}")
    kind: str = Field(description="The protocol's own word, as PROPOSAL or LeaderAndIsr; of an answer, with `answer`")
    subject: dict[str, Any]
    bytes: int | None = None
    answers: int | None = Field(default=None, description="The id of the request that it answers")
    lost: str | None = Field(default=None, description="Why it did not arrive, or what is odd about its times")


class MessagesAnswer(BaseModel):
    """The messages of a window, and what of it is not shown."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    messages: list[MessageShape]
    hidden: dict[str, int] = Field(description="How many more there are in the window, by class")
    truncated: bool = Field(description="Are there more than `limit` of what was wanted?")


@router.get(
    "/runs/{id}/messages",
    summary="What was said",
    response_model=MessagesAnswer,
    responses=responses(404, 422),
)
async def get_messages(
    id: RunId,
    service: Service,
    from_us: Annotated[int, Query(ge=0, le=2**63)] = 0,
    to_us: Annotated[int, Query(ge=0, le=2**63)] = 2**63 - 1,
    classes: Annotated[str, Query(max_length=500, description="By commas; left out: all of them")] = "",
    limit: Annotated[int, Query(ge=0, le=LIMIT_MAX)] = LIMIT_DEFAULT,
) -> Response:
    """The messages between two moments of the run's clock, earliest first.  Every message in between is in the answer
    or counted in `hidden`.  Of the live run it is what nodes have written down (`zabka.messages`): the lines of both
    ends make one message; where one end alone has written it down, `lost` says so."""
    wanted = frozenset(each for each in classes.split(",") if each)
    if unknown := sorted(wanted - set(CLASSES)):
        raise Problem(422, f"there is no class {unknown[0]}; there are {', '.join(CLASSES)}")
    selected = await service.messages.select(id, Window(from_us, to_us, wanted, limit))
    return Response(msgspec.json.encode(selected._asdict()), media_type="application/json")
