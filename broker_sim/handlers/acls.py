"""Handlers of DescribeAcls, CreateAcls and DeleteAcls (kafka.server.AclApis).

Without an authorizer, they return SECURITY_DISABLED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.authorizer.acl_authorizer import Authorizer, Deletion
from zabka.broker_sim.refusals import Refused
from zabka.broker_sim.request_context import Handler, RequestContext, RequestRefused
from zabka.kafka.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    EntryFilter,
    PatternFilter,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    from_code,
)
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, respond

_NO_AUTHORIZER = "No Authorizer is configured."


class AclHandlers:
    """Handles requests about ACLs. `authorizer` is None if the broker has none."""

    def __init__(self, authorizer: Authorizer | None) -> None:
        self._authorizer = authorizer

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.DESCRIBE_ACLS: self.describe_acls,
            ApiKey.CREATE_ACLS: self.create_acls,
            ApiKey.DELETE_ACLS: self.delete_acls,
        }

    async def describe_acls(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a DescribeAcls request. Raises RequestRefused if its filter contains an unknown code."""
        wanted = _filter(request)
        if self._authorizer is None:
            message = "No Authorizer is configured on the broker"
            return respond(request, error_code=ErrorCode.security_disabled, error_message=message)
        rows: dict[ResourcePattern, list[dict[str, Any]]] = {}
        for pattern, entry in self._authorizer.describe(wanted):
            rows.setdefault(pattern, []).append(_entry_row(entry))
        resources = [{**_pattern_row(pattern), "acls": entries} for pattern, entries in rows.items()]
        return respond(request, resources=resources)

    async def create_acls(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a CreateAcls request. Raises RequestRefused if it contains an unknown code."""
        bindings = [_binding(creation) for creation in request.creations]
        for binding in bindings:
            _check_codes(*binding.pattern, *binding.entry)
        if self._authorizer is None:
            return respond(request, results=[_security_disabled() for _ in bindings])
        if any(_is_of_a_filter(binding) for binding in bindings):
            # As in Kafka, such a binding makes the whole request fail with an error without a message.
            return respond(request, results=[{"error_code": ErrorCode.unknown_server_error} for _ in bindings])
        results = [_misnamed(binding) for binding in bindings]
        valid = [binding for binding, wrong in zip(bindings, results, strict=True) if wrong is None]
        outcomes = dict(zip(valid, await self._authorizer.create(valid), strict=True))
        rows = [_error_row(wrong or outcomes.get(binding)) for binding, wrong in zip(bindings, results, strict=True)]
        return respond(request, results=rows)

    async def delete_acls(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a DeleteAcls request. Raises RequestRefused if a filter contains an unknown code."""
        filters = [_filter(each) for each in request.filters]
        if self._authorizer is None:
            return respond(request, filter_results=[_security_disabled() for _ in filters])
        deleted = await self._authorizer.delete(filters)
        return respond(
            request, filter_results=[{"matching_acls": [_deletion_row(d) for d in each]} for each in deleted]
        )


def _security_disabled() -> dict[str, Any]:
    return {"error_code": ErrorCode.security_disabled, "error_message": _NO_AUTHORIZER}


# ---- from requests --------------------------------------------------------------------------------------------


def _check_codes(*codes: object) -> None:
    """Raise RequestRefused if a code is unknown: Kafka cannot parse such a request."""
    if any(code == 0 for code in codes if not isinstance(code, str)):
        raise RequestRefused("the request contains unknown elements")


def _filter(row: KafkaMessage) -> AclFilter:
    """Return the filter in a request. In version 0, it selects only literal patterns."""
    code = getattr(row, "pattern_type_filter", PatternType.LITERAL)
    pattern_type = from_code(PatternType, int(code))
    wanted = AclFilter(
        PatternFilter(from_code(ResourceType, int(row.resource_type_filter)), row.resource_name_filter, pattern_type),
        EntryFilter(
            row.principal_filter,
            row.host_filter,
            from_code(AclOperation, int(row.operation)),
            from_code(Permission, int(row.permission_type)),
        ),
    )
    _check_codes(
        wanted.pattern.resource_type, wanted.pattern.pattern_type, wanted.entry.operation, wanted.entry.permission
    )
    return wanted


def _binding(creation: KafkaMessage) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            from_code(ResourceType, int(creation.resource_type)),
            str(creation.resource_name),
            from_code(PatternType, int(getattr(creation, "resource_pattern_type", PatternType.LITERAL))),
        ),
        AclEntry(
            str(creation.principal),
            str(creation.host),
            from_code(AclOperation, int(creation.operation)),
            from_code(Permission, int(creation.permission_type)),
        ),
    )


def _is_of_a_filter(binding: AclBinding) -> bool:
    """Return whether a binding contains a code that only filters can contain."""
    pattern, entry = binding
    return (
        pattern.resource_type is ResourceType.ANY
        or pattern.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or entry.operation is AclOperation.ANY
        or entry.permission is Permission.ANY
    )


def _misnamed(binding: AclBinding) -> Refused | None:
    pattern = binding.pattern
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        message = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        return Refused(ErrorCode.invalid_request, message)
    return None if pattern.name else Refused(ErrorCode.invalid_request, "Invalid empty resource name")


# ---- to responses ---------------------------------------------------------------------------------------------


def _error_row(refused: Refused | None) -> dict[str, Any]:
    if refused is None:
        return {"error_code": ErrorCode.none, "error_message": None}
    return {"error_code": refused.error, "error_message": refused.message or None}


def _pattern_row(pattern: ResourcePattern) -> dict[str, Any]:
    return {
        "resource_type": pattern.resource_type,
        "resource_name": pattern.name,
        "pattern_type": pattern.pattern_type,
    }


def _entry_row(entry: AclEntry) -> dict[str, Any]:
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission,
    }


def _deletion_row(deletion: Deletion) -> dict[str, Any]:
    pattern, entry = deletion.binding
    return {**_error_row(deletion.refused), **_pattern_row(pattern), **_entry_row(entry)}
