"""Renders the OpenAPI document as one plain HTML page without scripts. It loads only the dashboard's icon."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse


def install(app: FastAPI) -> None:
    """Serve the API reference at /docs."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page(app.openapi()), headers={"cache-control": "no-cache"})


def page(document: dict[str, Any]) -> str:
    """Render the OpenAPI document: first every route, then every schema."""
    info, routes = document["info"], []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            routes.append(_route(f"{method.upper()} {path}", operation))
    schemas = "".join(
        f'<h3 id="{escape(name)}">{escape(name)}</h3>{_json(schema)}'
        for name, schema in sorted(document["components"]["schemas"].items())
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<link rel="icon" type="image/svg+xml" href="/web/icon.svg">'
        f"<title>{escape(info['title'])}: HTTP API</title></head><body><h1>{escape(info['title'])}: HTTP API</h1>"
        f"<p>{escape(info['description'])}</p>"
        '<p>As a document: <a href="/openapi.json">/openapi.json</a>. <a href="/">The dashboard</a></p>'
        f"<h2>Routes</h2>{''.join(routes)}<h2>Schemas</h2>{schemas}</body></html>"
    )


def _route(name: str, operation: dict[str, Any]) -> str:
    parameters = "".join(
        f"<li><code>{escape(each['name'])}</code> ({escape(each['in'])}): {escape(each.get('description', ''))}</li>"
        for each in operation.get("parameters", ())
    )
    body = operation.get("requestBody", {}).get("content", {})
    answers = "".join(
        f"<li>{escape(status)}: {escape(answer['description'])}{_schemas(answer.get('content', {}))}</li>"
        for status, answer in operation["responses"].items()
    )
    return (
        f"<details><summary><code>{escape(name)}</code> {escape(operation['summary'])}</summary>"
        f"<p>{escape(operation.get('description', ''))}</p>"
        + (f"<h4>Parameters</h4><ul>{parameters}</ul>" if parameters else "")
        + (f"<h4>Body</h4><p>{_schemas(body)}</p>" if body else "")
        + f"<h4>Answers</h4><ul>{answers}</ul></details>"
    )


def _schemas(content: dict[str, Any]) -> str:
    links = ""
    for media_type, content_type in content.items():
        name = content_type.get("schema", {}).get("$ref", "").rpartition("/")[2]
        link = f' <a href="#{escape(name)}">{escape(name)}</a>' if name else ""
        links += f" <code>{escape(media_type)}</code>{link}"
    return links


def _json(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=1, ensure_ascii=False))}</pre>"
