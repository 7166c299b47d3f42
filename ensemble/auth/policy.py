"""What a server demands and believes: the keys of zoo.cfg that are about authentication, and the checks they decide.

Sources: ProviderRegistry, DigestAuthenticationProvider, X509AuthenticationProvider, SASLAuthenticationProvider,
EnsembleAuthenticationProvider, AuthenticationHelper, ZooKeeperServer.processSasl.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hmac import compare_digest

import msgspec

from zabka.ensemble.auth.schemes import DEFAULT_SCHEMES, DIGEST, IP, SASL, SUPER, SUPER_USER, X509, AuthId, digest_of


class AuthPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How clients may prove who they are.  Nobody is super unless this names who.

    `schemes`: those that ACLs may use.  `sasl_users`: password by user, None where SASL is not set up at all.
    `required_schemes`: a client without an identity in one of these gets no service (`enforce.auth.schemes`).
    `any_sasl_user`: an ACL's `sasl` entry for this name means whoever came by SASL (`letAnySaslUserDoX`).
    `ensemble_names`: where the `ensemble` scheme is on, clients that look for another ensemble are turned away.
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
        """Without its secrets: this may end in a log."""
        return f"AuthPolicy(schemes={sorted(self.schemes)}, required={self.required_schemes})"

    @property
    def sasl_required(self) -> bool:
        """Whether only SASL (or another scheme beside it) opens the door."""
        return SASL in self.required_schemes

    def identities_of(self, address: str, subject: str | None) -> tuple[AuthId, ...]:
        """What a connection proves by itself: its address, and its certificate's subject where it showed one that was
        verified."""
        found: list[AuthId] = [(IP, address)]
        if subject is not None:
            if self.x509_super_user and compare_digest(subject.encode(), self.x509_super_user.encode()):
                found.append((SUPER, subject))
            found.append((X509, subject))
        return tuple(found)

    def authenticate(self, scheme: str, credentials: bytes | None, present: Iterable[AuthId]) -> tuple[AuthId, ...]:
        """What an auth packet proves, given what the connection has proved before; nothing where it is refused."""
        if scheme not in self.schemes:
            return ()
        if scheme == DIGEST:
            return self._digest(credentials)
        # An address and a certificate are proved already or not at all; SASL is not done by auth packets.
        return tuple(identity for identity in present if identity[0] == scheme and scheme != SASL)

    def _digest(self, credentials: bytes | None) -> tuple[AuthId, ...]:
        if credentials is None:
            return ()
        # As Java reads bytes that are no UTF-8.
        digest = digest_of(credentials.decode("utf-8", "replace"), self.digest_algorithm)
        if self.super_digest and compare_digest(digest.encode(), self.super_digest.encode()):
            return SUPER_USER, (DIGEST, digest)
        return ((DIGEST, digest),)

    def sasl_identities(self, user: str) -> tuple[AuthId, ...]:
        """What a finished SASL negotiation proves."""
        return ((SASL, user), SUPER_USER) if user in self.sasl_super_users else ((SASL, user),)

    def rights_of(self, auth: Sequence[AuthId]) -> Sequence[AuthId]:
        """The identities that count where an ACL is asked: those that were proved, and what this server gives to
        whoever has them."""
        if self.skip_acl:
            return (SUPER_USER, *auth)
        if self.any_sasl_user and any(scheme == SASL for scheme, _ in auth):
            return (*auth, (SASL, self.any_sasl_user))
        return auth

    def knows_ensemble(self, name: bytes | None) -> bool:
        """Whether a client that names that ensemble is right here; one that names none always is."""
        return not name or self.ensemble_names is None or name.decode("utf-8", "replace") in self.ensemble_names

    def lets_in(self, auth: Iterable[AuthId]) -> bool:
        """Whether somebody with these identities is served at all."""
        return not self.required_schemes or any(scheme in self.required_schemes for scheme, _ in auth)


OPEN_POLICY = AuthPolicy()
"""ZooKeeper's defaults: digest and ip, no super user, nothing required."""
