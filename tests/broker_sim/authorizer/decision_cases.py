"""Sixty decisions of Kafka's authorizer: the ACLs, the question, and the expected result.

The expected values are from the rules of AclAuthorizer (Kafka 3.9). Each group names the method of Kafka's
AuthorizerTest, BaseAuthorizerTest or AclAuthorizer that states its rule. `tests/interop/test_acl_authorizer.py` asks
Apache's class the same questions.
"""

from __future__ import annotations

from typing import NamedTuple

from zabka.broker_sim.authorizer.decisions import AclIndex, Requester
from zabka.broker_sim.principals import KafkaPrincipal
from zabka.kafka.acls import AclEntry, AclOperation, PatternType, Permission, ResourcePattern, ResourceType

ANY_RESOURCE = ""
"""Name in a question about any resource of the type (authorizeByResourceType)."""
SUPER_USERS = "User:root;User:CN=broker,OU=kafka"


class Case(NamedTuple):
    """ACLs in the form `allow alice * read literal topic orders`, and a question `alice 10.0.0.1 read topic orders`."""

    acls: str
    question: str
    allowed: bool
    allows_if_no_acl: bool = False

    def acl_index(self) -> AclIndex:
        users = [KafkaPrincipal(*user.split(":", 1)) for user in SUPER_USERS.split(";")]
        index = AclIndex(users, self.allows_if_no_acl)
        patterns: dict[ResourcePattern, list[AclEntry]] = {}
        for line in filter(None, self.acls.split("; ")):
            permission, user, host, operation, kind, resource_type, name = line.split(" ")
            pattern = ResourcePattern(ResourceType[resource_type.upper()], name, PatternType[kind.upper()])
            entry = AclEntry(f"User:{user}", host, AclOperation[operation.upper()], Permission[permission.upper()])
            patterns.setdefault(pattern, []).append(entry)
        for pattern, entries in patterns.items():
            index.assign(pattern, entries)
        return index

    def answer(self) -> bool:
        user, host, operation, resource_type, *name = self.question.split(" ")
        requester = Requester(KafkaPrincipal("User", user), host)
        asked = AclOperation[operation.upper()], ResourceType[resource_type.upper()]
        if not name:
            return self.acl_index().allows_any(requester, *asked)
        return self.acl_index().allows(requester, *asked, name[0])


DENY_ALL = "deny * * all literal topic *"
CASES: tuple[Case, ...] = (
    # testNoAclFound, testNoAclFoundOverride: the default without any ACL.
    Case("", "alice 10.0.0.1 read topic orders", False),
    Case("", "alice 10.0.0.1 read topic orders", True, allows_if_no_acl=True),
    Case("allow bob * read literal topic orders", "alice 10.0.0.1 read topic orders", False, allows_if_no_acl=True),
    Case("allow bob * read literal topic other", "alice 10.0.0.1 read topic orders", True, allows_if_no_acl=True),
    Case("allow bob * read prefixed topic ord", "alice 10.0.0.1 read topic orders", False, allows_if_no_acl=True),
    # testSuperUserHasAccess, testWildCardAcls: super users ignore every ACL.
    Case(DENY_ALL, "root 10.0.0.1 read topic orders", True),
    Case(DENY_ALL, "CN=broker,OU=kafka 10.0.0.1 cluster_action cluster kafka-cluster", True),
    Case(DENY_ALL, "Root 10.0.0.1 read topic orders", False),
    # testTopicAcl: principals, hosts and operations have to match.
    Case("allow alice * read literal topic orders", "alice 10.0.0.1 read topic orders", True),
    Case("allow alice * read literal topic orders", "bob 10.0.0.1 read topic orders", False),
    Case("allow alice * read literal topic orders", "Alice 10.0.0.1 read topic orders", False),
    Case("allow alice * read literal topic orders", "alice 10.0.0.1 write topic orders", False),
    Case("allow alice * read literal topic orders", "alice 10.0.0.1 read topic orders2", False),
    Case("allow alice * read literal topic orders", "alice 10.0.0.1 read group orders", False),
    Case("allow alice 10.0.0.1 read literal topic orders", "alice 10.0.0.1 read topic orders", True),
    Case("allow alice 10.0.0.1 read literal topic orders", "alice 10.0.0.2 read topic orders", False),
    Case("allow alice 10.0.0.* read literal topic orders", "alice 10.0.0.1 read topic orders", False),
    Case("allow * * read literal topic orders", "alice 10.0.0.1 read topic orders", True),
    Case("allow ali* * read literal topic orders", "alice 10.0.0.1 read topic orders", False),
    Case("allow alice * all literal topic orders", "alice 10.0.0.1 alter_configs topic orders", True),
    Case("allow alice * all literal cluster kafka-cluster", "alice 1.1.1.1 create cluster kafka-cluster", True),
    Case("allow alice * write literal transactional_id tx", "alice 1.1.1.1 write transactional_id tx", True),
    Case("allow alice * describe literal delegation_token t", "alice 1.1.1.1 describe delegation_token t", True),
    Case("allow alice * create_tokens literal user User:bob", "alice 1.1.1.1 create_tokens user User:bob", True),
    Case("allow alice * create_tokens literal user User:bob", "alice 1.1.1.1 describe_tokens user User:bob", False),
    # testDenyTakesPrecedence: a matching DENY wins, whatever allows the operation.
    Case("allow alice * read literal topic t; deny alice * read literal topic t", "alice 1.1.1.1 read topic t", False),
    Case("allow alice * all literal topic t; deny * * read literal topic t", "alice 1.1.1.1 read topic t", False),
    Case("allow alice * all literal topic t; deny alice * all literal topic t", "alice 1.1.1.1 read topic t", False),
    Case("allow alice * all literal topic t; deny alice * write literal topic t", "alice 1.1.1.1 read topic t", True),
    Case("allow alice * all literal topic t; deny bob * read literal topic t", "alice 1.1.1.1 read topic t", True),
    Case(
        "allow alice * read literal topic t; deny alice 2.2.2.2 read literal topic t",
        "alice 1.1.1.1 read topic t",
        True,
    ),
    Case(
        "allow alice * read literal topic t; deny alice 2.2.2.2 read literal topic t",
        "alice 2.2.2.2 read topic t",
        False,
    ),
    Case("deny alice * read literal topic t", "alice 1.1.1.1 read topic t", False, allows_if_no_acl=True),
    # testAllowAllAccess, testAccessAllowedIfAllowAclExistsOnWildcardResource: the literal pattern `*`.
    Case("allow alice * read literal topic *", "alice 1.1.1.1 read topic orders", True),
    Case("allow alice * read literal topic *", "alice 1.1.1.1 read group orders", False),
    Case(
        "allow alice * read literal topic orders; deny alice * read literal topic *",
        "alice 1.1.1.1 read topic orders",
        False,
    ),
    Case(
        "allow alice * read literal topic *; deny alice * read literal topic orders",
        "alice 1.1.1.1 read topic orders",
        False,
    ),
    # testAuthorizeWithPrefixedResource, testSingleCharacterResourceAcls: prefixed patterns.
    Case("allow alice * read prefixed topic ord", "alice 1.1.1.1 read topic orders", True),
    Case("allow alice * read prefixed topic ord", "alice 1.1.1.1 read topic ord", True),
    Case("allow alice * read prefixed topic ord", "alice 1.1.1.1 read topic or", False),
    Case("allow alice * read prefixed topic ord", "alice 1.1.1.1 read topic Orders", False),
    Case(
        "allow alice * read prefixed topic ord; deny alice * read prefixed topic orders-",
        "alice 1.1.1.1 read topic orders-eu",
        False,
    ),
    Case(
        "deny alice * read prefixed topic ord; allow alice * read literal topic orders",
        "alice 1.1.1.1 read topic orders",
        False,
    ),
    Case("allow alice * read prefixed topic *", "alice 1.1.1.1 read topic orders", False),
    Case(
        "allow alice * read prefixed group g-; deny alice * read literal group g-1",
        "alice 1.1.1.1 read group g-2",
        True,
    ),
    # testAclInheritance, testImplicationsOfAllow, testImplicationsOfDeny: implied operations. DENY implies nothing.
    Case("allow alice * read literal topic t", "alice 1.1.1.1 describe topic t", True),
    Case("allow alice * write literal topic t", "alice 1.1.1.1 describe topic t", True),
    Case("allow alice * delete literal topic t", "alice 1.1.1.1 describe topic t", True),
    Case("allow alice * alter literal topic t", "alice 1.1.1.1 describe topic t", True),
    Case("allow alice * create literal topic t", "alice 1.1.1.1 describe topic t", False),
    Case("allow alice * alter_configs literal topic t", "alice 1.1.1.1 describe_configs topic t", True),
    Case("allow alice * alter_configs literal topic t", "alice 1.1.1.1 describe topic t", False),
    Case("allow alice * describe literal topic t", "alice 1.1.1.1 read topic t", False),
    Case(
        "allow alice * describe literal topic t; deny alice * read literal topic t",
        "alice 1.1.1.1 describe topic t",
        True,
    ),
    # authorizeByResourceType: testAuthorizeByResourceType... of BaseAuthorizerTest.
    Case("", "alice 1.1.1.1 write topic", False),
    Case("allow alice * write literal topic t", "alice 1.1.1.1 write topic", True),
    Case("allow alice * write prefixed topic t; deny * * write literal topic *", "alice 1.1.1.1 write topic", False),
    Case(
        "allow alice * all prefixed topic abc; deny alice * write prefixed topic ab", "alice 1.1.1.1 write topic", False
    ),
    Case(
        "allow alice * all prefixed topic ab; deny alice * write prefixed topic abc", "alice 1.1.1.1 write topic", True
    ),
    Case("allow alice * read literal topic t", "alice 1.1.1.1 describe topic", False),
    Case("deny alice * write literal topic t", "alice 1.1.1.1 write topic", True, allows_if_no_acl=True),
    Case(DENY_ALL, "root 1.1.1.1 write topic", True),
)
