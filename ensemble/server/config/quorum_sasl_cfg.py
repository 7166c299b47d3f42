"""The keys of zoo.cfg about SASL between servers (QuorumPeerConfig, QuorumAuth)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from zabka.ensemble.auth.jaas import digest_login, digest_users
from zabka.ensemble.auth.quorum_sasl import QuorumSasl
from zabka.ensemble.server.config.config_values import ConfigError, Values
from zabka.ensemble.server.config.jaas_file import KEY, read_section

T = TypeVar("T")
_ENABLED, _SERVER, _LEARNER = (
    f"quorum.auth.{name}" for name in ("enableSasl", "serverRequireSasl", "learnerRequireSasl")
)
_PRINCIPAL = "quorum.auth.kerberos.servicePrincipal"


def read_quorum_sasl(values: Values) -> QuorumSasl | None:
    """How servers prove themselves to each other; None where they need not.  Raises ConfigError."""
    enabled, server, learner = (values.flag(key, False) for key in (_ENABLED, _SERVER, _LEARNER))
    server_section = values.text("quorum.auth.server.saslLoginContext", "QuorumServer")
    learner_section = values.text("quorum.auth.learner.saslLoginContext", "QuorumLearner")
    if values.text(_PRINCIPAL, ""):
        raise ConfigError(f"{_PRINCIPAL}: GSSAPI is not supported, DIGEST-MD5 is")
    for key, wanted in ((_SERVER, server), (_LEARNER, learner)):
        if wanted and not enabled:
            raise ConfigError(f"{key}=true needs {_ENABLED}=true")
    if server and not learner:
        raise ConfigError(f"{_SERVER}=true needs {_LEARNER}=true")
    if not enabled:
        return None
    users = _section(values, server_section, digest_users)
    user, password = _section(values, learner_section, digest_login)
    return QuorumSasl(users=users, user=user, password=password, learner_required=learner, server_required=server)


def _section(values: Values, name: str, parse: Callable[[str, str], T | None]) -> T:
    found = read_section(values, name, parse)
    if found is None:
        raise ConfigError(f"{_ENABLED}=true needs a section {name} in the file that {KEY} names")
    return found
