"""Validates rules for Kafka requests.

A rule is impossible if brokers do not support the API, if the API's requests lack a field that the rule matches, if the
API cannot return the error, or if no version in the rule's range has the field that the effect sets.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache

from kio.schema.errors import ErrorCode

from zabka.ensemble.request_fault import ANY, RequestFault
from zabka.kafka.request_faults.api_errors import ERRORS, error_since
from zabka.kafka.request_faults.subjects import APIS, MATCHES
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.kafka_schema import ApiKey, response_class

THROTTLE_FIELD = "throttle_time"
_BATCHES = (ApiKey.PRODUCE, ApiKey.FETCH)
_NEEDS_ONE_API = frozenset({"error", "corrupt", "stale"})
KAFKA_ERRORS = {code.name.upper(): code for code in ErrorCode if code is not ErrorCode.none}
"""Kafka's error codes, by name (Errors.java)."""


def why_impossible(rule: RequestFault) -> str | None:
    """Return why a rule for Kafka requests can never apply, or None if it can."""
    if rule.api == ANY:
        return _why_not_of_all(rule)
    api = APIS.get(rule.api)
    if api is None:
        return f"api: brokers serve no {rule.api!r}; they serve {', '.join(sorted(APIS))}"
    lowest, highest = SUPPORTED[api]
    if rule.min_version > highest:
        return f"min_version: brokers serve {rule.api} versions {lowest} to {highest}"
    for field, having in MATCHES.items():
        if getattr(rule, field) not in ("", -1) and api not in having:
            names = ", ".join(sorted(name for name, each in APIS.items() if each in having))
            return f"{field}: {rule.api} requests have no {field}; those of {names} do"
    return _why_without_effect(rule, api)


def _why_not_of_all(rule: RequestFault) -> str | None:
    if rule.effect in _NEEDS_ONE_API:
        return f"effect {rule.effect}: it needs one API, not *"
    field = next((name for name in MATCHES if getattr(rule, name) not in ("", -1)), None)
    return None if field is None else f"{field}: not every API has a {field}; name one API"


def _why_without_effect(rule: RequestFault, api: ApiKey) -> str | None:
    if rule.error:
        return _why_no_such_error(rule, api)
    if rule.effect == "corrupt" and api not in _BATCHES:
        return f"effect corrupt: {rule.api} carries no record batches; Produce and Fetch do"
    if rule.effect == "stale" and api is not ApiKey.METADATA:
        return f"effect stale: a broker keeps earlier metadata for Metadata requests, not for {rule.api}"
    if rule.effect == "throttle":
        since = throttle_since(api)
        if since is None:
            return f"effect throttle: {rule.api} responses have no throttle time; use delay_after"
        if rule.max_version < since:
            return f"max_version: {rule.api} responses have a throttle time from version {since} on"
    return None


def _why_no_such_error(rule: RequestFault, api: ApiKey) -> str | None:
    if rule.error not in KAFKA_ERRORS:
        close = sorted(name for name in KAFKA_ERRORS if rule.error.upper() in name or name in rule.error.upper())
        hint = f"; did you mean {', '.join(close)}?" if close else ": use a name of Errors.java"
        return f"error: Kafka has no error {rule.error!r}{hint}"
    allowed = ERRORS.get(api)
    if allowed is None:
        return f"effect error: zabka has no list of the errors of {rule.api}; use close, hang or delay_before"
    if rule.error not in allowed:
        return f"error: {rule.api} cannot return {rule.error}; it can return {', '.join(sorted(allowed))}"
    since = error_since(api, rule.error)
    if rule.max_version < since:
        return f"max_version: {rule.api} returns {rule.error} from version {since} on"
    return None


@cache
def throttle_since(api: ApiKey) -> int | None:
    """Return the first version of an API whose responses have a throttle time, or None if there is none."""
    lowest, highest = SUPPORTED[api]
    for version in range(lowest, highest + 1):
        if any(field.name == THROTTLE_FIELD for field in fields(response_class(api, version))):
            return version
    return None
