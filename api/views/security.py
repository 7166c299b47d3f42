"""The listeners and the authorizer of the brokers, from their last statuses, and the ACLs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zabka.api.views.security_models import AclBindingView, Acls, ListenerView
from zabka.kafka.acls import AclBinding, pascal

BINDINGS_MAX = 10_000
"""Maximum number of ACLs in an answer."""
NO_AUTHORIZER = "No broker has an authorizer (authorizer.class.name): every operation is allowed to every client."


def listeners(statuses: Mapping[int, Mapping[str, Any]]) -> list[ListenerView]:
    """Return the listeners of the running brokers, whose statuses are keyed by broker id."""
    return [
        ListenerView(broker_id=broker_id, **row)
        for broker_id, status in statuses.items()
        for row in status.get("listeners", ())
    ]


def has_authorizer(statuses: Mapping[int, Mapping[str, Any]]) -> bool:
    """Return whether at least one of these brokers has an authorizer."""
    return any(status.get("authorizer") for status in statuses.values())


def acls(statuses: Mapping[int, Mapping[str, Any]], bindings: Sequence[AclBinding]) -> Acls:
    """Return the authorizer of the brokers with these statuses, and the ACLs."""
    found = {broker_id: status.get("authorizer") for broker_id, status in statuses.items()}
    authorizers = [each for each in found.values() if each]
    super_users = dict.fromkeys(user for each in authorizers for user in each["super_users"])
    return Acls(
        authorizer=authorizers[0]["class"] if authorizers else None,
        super_users=list(super_users),
        allow_everyone_if_no_acl_found=any(each["allow_everyone_if_no_acl_found"] for each in authorizers),
        brokers_without_authorizer=[broker_id for broker_id, each in found.items() if not each],
        bindings=[_binding(each) for each in sorted(bindings)[:BINDINGS_MAX]],
        omitted=max(0, len(bindings) - BINDINGS_MAX),
        note=None if authorizers else NO_AUTHORIZER,
    )


def _binding(binding: AclBinding) -> AclBindingView:
    pattern, entry = binding
    return AclBindingView(
        resource_type=pascal(pattern.resource_type),
        resource_name=pattern.name,
        pattern_type=pascal(pattern.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=pascal(entry.operation),
        permission=pascal(entry.permission),
    )
