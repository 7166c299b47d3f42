"""Error responses as RFC 9457 problem documents.

The service sends them for rejected requests, invalid requests, unknown routes, and internal errors.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from zabka.agent.problem_document import MEDIA_TYPE, document

ERRORS_MAX = 20


class ProblemDocument(BaseModel):
    """Body of an error response (RFC 9457), for programs and for people."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "example": {
                "type": "about:blank",
                "title": "Not Found",
                "status": 404,
                "detail": "there is no broker 9; brokers are 1, 2, 3",
                "instance": "/api/v1/brokers/9",
            }
        },
    )

    type: str = Field("about:blank", description="URI of the kind of problem")
    title: str = Field(description="The kind of problem")
    status: int = Field(description="The HTTP status")
    detail: str = Field(description="What went wrong, and why")
    instance: str = Field(description="The requested path")


class Problem(Exception):
    """An error response. `extra` adds members to the problem document."""

    def __init__(self, status: int, detail: str, *, title: str | None = None, **extra: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.title = title or HTTPStatus(status).phrase
        self.extra = extra


def response(request: Request, problem: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return the HTTP response for a problem."""
    body = document(problem.status, problem.detail, request.url.path, problem.title, **problem.extra)
    return JSONResponse(body, problem.status, headers, MEDIA_TYPE)


def _errors(exc: RequestValidationError) -> list[dict[str, Any]]:
    """Return only the first validation errors, because a body of one megabyte can cause half a million errors."""
    errors = exc.errors()[:ERRORS_MAX]
    # The error location can include a key of the body, which may be a string that no response can contain (half a
    # surrogate pair).
    where = [".".join(str(p) for p in e["loc"]).encode(errors="backslashreplace").decode() for e in errors]
    return [{"where": place, "what": str(e["msg"])} for place, e in zip(where, errors, strict=True)]


def install(app: FastAPI) -> None:
    """Make this application return a problem document for every error."""

    @app.exception_handler(Problem)
    async def on_problem(request: Request, exc: Problem) -> JSONResponse:
        return response(request, exc)

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, exc: RequestValidationError) -> JSONResponse:
        errors = _errors(exc)
        detail = "; ".join(f"{e['where']}: {e['what']}" for e in errors)
        if (more := len(exc.errors()) - len(errors)) > 0:
            detail += f"; and {more} more"
        return response(request, Problem(422, detail, errors=errors))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, exc: HTTPException) -> JSONResponse:
        detail = f"{request.method} {request.url.path}: {exc.detail}"
        return response(request, Problem(exc.status_code, detail), dict(exc.headers or {}))

    @app.exception_handler(Exception)
    async def on_bug(request: Request, exc: Exception) -> JSONResponse:
        # Starlette logs the traceback; the user receives no stack trace.
        return response(request, Problem(500, "internal error; see zabka's log"))


def describe(app: FastAPI) -> None:
    """Add the schema of problem documents, which `responses` uses, to the OpenAPI document."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
        for methods in document["paths"].values():
            for operation in methods.values():
                if "requestBody" in operation:
                    operation["responses"].update(
                        {str(status): described for status, described in responses(413).items()}
                    )
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return a route's error responses with these statuses, for the OpenAPI document."""
    reasons = {
        400: "The request is malformed, or its Host header is not allowed",
        401: "The bearer token is missing or wrong (where not on loopback, or secured)",
        403: "The request comes from a page of another origin",
        404: "Not found",
        409: "The request conflicts with the current state",
        410: "The requested events are no longer stored; `oldest` is the oldest stored event",
        413: "The body is too large",
        416: "The partition has no such offset: see `first_offset` and `end_offset`",
        422: "The request is valid JSON, but its content is not allowed: see `detail`",
        503: "The cluster is unavailable: no quorum, no controller or no broker",
    }
    return {
        status: {
            "description": reasons[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
        }
        for status in (*statuses, 400)
    }
