"""Lets pydantic, and so FastAPI, use msgspec structs: msgspec validates them and describes their schemas.

Use this module for structs that the API only passes on and that are defined in a package that does not depend on HTTP.
"""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


class OneOfStructs:
    """Annotation for a field with one of two struct types: `second` if its `tag` field is `value`, else `first`."""

    def __init__(self, first: type[msgspec.Struct], second: type[msgspec.Struct], tag: str, value: str) -> None:
        self._schemas = StructSchema(first), StructSchema(second)
        self._kinds = first, second
        self._tag = tag
        self._value = value

    def _checked(self, value: Any) -> msgspec.Struct:
        if isinstance(value, self._kinds):
            return value
        is_second = isinstance(value, dict) and value.get(self._tag) == self._value
        return self._schemas[is_second].checked(value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._checked, serialization=core_schema.plain_serializer_function_ser_schema(msgspec.to_builtins)
        )

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"oneOf": [schema.json_schema() for schema in self._schemas]}


class StructSchema:
    """Annotation for a struct type without nested structs: `Annotated[Some, StructSchema(Some)]`."""

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self._kind = kind

    def checked(self, value: Any) -> msgspec.Struct:
        """Return a struct unchanged, or convert decoded JSON to the struct type. Raises ValueError."""
        if isinstance(value, self._kind):
            return value
        try:
            return msgspec.convert(value, self._kind)
        except msgspec.ValidationError as bad:
            raise ValueError(str(bad)) from None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.checked, serialization=core_schema.plain_serializer_function_ser_schema(msgspec.to_builtins)
        )

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return self.json_schema()

    def json_schema(self) -> JsonSchemaValue:
        """Return the struct's JSON schema."""
        _, components = msgspec.json.schema_components([self._kind])
        return dict(components[self._kind.__name__])
