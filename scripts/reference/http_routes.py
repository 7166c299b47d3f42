"""Reference page of the HTTP API: every route, read from the OpenAPI document."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from scripts.reference.markdown import code, document, sentence, table
from zabka.api.app import DESCRIPTION, TAGS, create_app
from zabka.api.services import Services
from zabka.api.settings import Settings

_INTRODUCTION = (
    f"{' '.join(DESCRIPTION.split())} A running cluster shows the same, with every schema, at `/docs`, and as a "
    "document at `/openapi.json`."
)


def page() -> str:
    """Return the page of the HTTP API."""
    document_ = openapi()
    schemas: dict[str, Any] = document_["components"]["schemas"]
    parts = []
    for tag in TAGS:
        routes = [
            (method.upper(), path, route)
            for path, methods in document_["paths"].items()
            for method, route in methods.items()
            if tag["name"] in route.get("tags", [])
        ]
        parts.append(f"## {tag['name']}\n\n{tag['description']}.\n\n" + "\n".join(_route(*route) for route in routes))
    named = [
        each for name in sorted(schemas) if not name.startswith("HTTP") for each in _alternatives(name, schemas[name])
    ]
    parts += [f"## Schemas\n\n{_SCHEMAS}\n", *(_schema(name, schema) for name, schema in named)]
    return document("HTTP API", _INTRODUCTION, *parts)


_SCHEMAS = "What requests and answers are made of. A field that may be `null` says so in its type."


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of the application, without starting a server."""
    settings = Settings.model_construct(host="127.0.0.1", allowed_hosts=[], web=None, node_modules=None)
    return create_app(cast(Services, SimpleNamespace(settings=settings, emit=lambda event: None)), token=None).openapi()


def _route(method: str, path: str, route: dict[str, Any]) -> str:
    lines = [f"### {method} {path}\n", f"{route['summary']}. {sentence(route.get('description'))}\n"]
    parameters = [
        [
            code(p["name"]),
            p["in"],
            code(_type(p["schema"])),
            "required" if p.get("required") else "",
            p.get("description", ""),
        ]
        for p in route.get("parameters", [])
    ]
    if parameters:
        lines.append(table(["parameter", "in", "type", "", ""], parameters))
    body = route.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        lines.append(f"Body: {code(_type(body['schema']))}.\n")
    answers = [[status, code(_answer(answer)), answer["description"]] for status, answer in route["responses"].items()]
    lines.append(table(["status", "body", "when"], answers))
    return "\n".join(lines)


def _answer(answer: dict[str, Any]) -> str:
    for content in answer.get("content", {}).values():
        if found := _type(content.get("schema", {})):
            return found
    return ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(_type(one) for one in schema.get("anyOf") or schema["oneOf"])
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {})) or 'anything'}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties']) or 'anything'}"
    return str(schema.get("type", ""))


def _alternatives(name: str, schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the schema with its name if it has fields. Otherwise return each of its alternatives."""
    alternatives = schema.get("oneOf")
    if alternatives is None:
        return [(name, schema)] if schema.get("properties") else []
    return [(f"{name}, as {each['title']}", each) for each in alternatives]


def _schema(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = []
    for field, described in schema["properties"].items():
        default = "" if field in required or "default" not in described else repr(described["default"])
        rows.append([code(field), code(_type(described)), code(default), described.get("description", "")])
    return f"### {name}\n\n{sentence(schema.get('description'))}\n\n" + table(["field", "type", "default", ""], rows)
