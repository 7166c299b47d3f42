"""Authentication policy of a server: the zoo.cfg keys about authentication, and the checks that depend on them.

Sources: ProviderRegistry, DigestAuthenticationProvider, X509AuthenticationProvider, SASLAuthenticationProvider,
EnsembleAuthenticationProvider, AuthenticationHelper, ZooKeeperServer.processSasl.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hmac import compare_digest

import msgspec

from zabka.ensemble.auth.schemes import DEFAULT_SCHEMES, DIGEST, IP, SASL, SUPER, SUPER_USER, X509, AuthId, digest_of


class AuthPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How clients can authenticate. There is no super user unless this policy configures one.

    `schemes`: the schemes allowed in ACLs. `sasl_users`: passwords keyed by user, None if SASL is not configured.
    `required_schemes`: requests of a client are rejected until it has an identity in one of these schemes
    (`enforce.auth.schemes`). `any_sasl_user`: an ACL's `sasl` entry for this name applies to every client authenticated
    by SASL (`letAnySaslUserDoX`). `ensemble_names`: if the `ensemble` scheme is enabled, clients that request another
    ensemble are rejected.
    """

    schemes: frozenset[str] = DEFAULT_SCHEMES
    super_digest: str = ""
    digest_algorithm: str = "sha1"
    x509_super_user: str = ""
    sasl_users: dict[str, str] | None = None
    sasl_super_users: tuple[str, ...] = ()
    sasl_failure_tolerated: bool = False
    required_schemes: tuple[str, ...] = ()
    skip_acl: bool = False
    any_sasl_user: str = ""
    ensemble_names: frozenset[str] | None = None

    def __repr__(self) -> str:
        """Representation without secrets, because it may be logged."""
        return f"AuthPolicy(schemes={sorted(self.schemes)}, required={self.required_schemes})"

    @property
    def sasl_required(self) -> bool:
        """Whether SASL is a required scheme; if there are other required schemes, a client needs only one of them."""
        return SASL in self.required_schemes

    def identities_of(self, address: str, subject: str | None) -> tuple[AuthId, ...]:
        """Return the identities that a client proves by connecting, before it sends credentials.

        They are its IP address and, with TLS, the subject of its verified certificate.
        """
        found: list[AuthId] = [(IP, address)]
        if subject is not None:
            if self.x509_super_user and compare_digest(subject.encode(), self.x509_super_user.encode()):
                found.append((SUPER, subject))
            found.append((X509, subject))
        return tuple(found)

    def authenticate(self, scheme: str, credentials: bytes | None, present: Iterable[AuthId]) -> tuple[AuthId, ...]:
        """Return the identities that an auth packet proves; empty if the packet is rejected.

        `present`: the identities that the connection has proved already.
        """
        if scheme not in self.schemes:
            return ()
        if scheme == DIGEST:
            return self._digest(credentials)
        # An address or a certificate is proved when the client connects, and SASL does not use auth packets.
        return tuple(identity for identity in present if identity[0] == scheme and scheme != SASL)

    def _digest(self, credentials: bytes | None) -> tuple[AuthId, ...]:
        if credentials is None:
            return ()
        # Java, too, decodes invalid UTF-8 to replacement characters.
        digest = digest_of(credentials.decode("utf-8", "replace"), self.digest_algorithm)
        if self.super_digest and compare_digest(digest.encode(), self.super_digest.encode()):
            return SUPER_USER, (DIGEST, digest)
        return ((DIGEST, digest),)

    def sasl_identities(self, user: str) -> tuple[AuthId, ...]:
        """Return the identities that a finished SASL negotiation proves."""
        return ((SASL, user), SUPER_USER) if user in self.sasl_super_users else ((SASL, user),)

    def rights_of(self, auth: Sequence[AuthId]) -> Sequence[AuthId]:
        """Return the identities for ACL checks: the proved identities and the ones that this server's policy adds."""
        if self.skip_acl:
            return (SUPER_USER, *auth)
        if self.any_sasl_user and any(scheme == SASL for scheme, _ in auth):
            return (*auth, (SASL, self.any_sasl_user))
        return auth

    def knows_ensemble(self, name: bytes | None) -> bool:
        """Return whether `name` is this ensemble's name; a client that sends no name is always accepted."""
        return not name or self.ensemble_names is None or name.decode("utf-8", "replace") in self.ensemble_names

    def lets_in(self, auth: Iterable[AuthId]) -> bool:
        """Return whether a client with these identities has authenticated as the policy requires."""
        return not self.required_schemes or any(scheme in self.required_schemes for scheme, _ in auth)


OPEN_POLICY = AuthPolicy()
"""ZooKeeper's defaults: schemes digest and ip, no super user, no required scheme."""
