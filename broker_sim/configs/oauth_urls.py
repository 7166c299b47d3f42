"""Checks shared by the keys of OAUTHBEARER: URLs of an issuer, its trust store, pauses between tries, and claims."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from zabka.broker_sim.configs.config_def import ConfigError, Value

TRUST_OPTIONS = ("ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type")
"""Options of the login module for the trust store of https."""


def checked_url(key: str, url: str) -> str:
    """Return the URL of a key if it is one of http, https or file. Raises ConfigError."""
    try:
        parts = urlsplit(url)
        is_usable = bool(parts.hostname) and parts.port != 0 if parts.scheme in ("http", "https") else bool(parts.path)
    except ValueError:
        is_usable = False
        parts = urlsplit("")
    if not is_usable or parts.scheme not in ("http", "https", "file"):
        raise ConfigError(f"{key}={url} is not a URL of http, https or file")
    if parts.username is not None:
        raise ConfigError(f"{key} contains a user name or a password, which are not sent")
    return url


def file_of(url: str) -> str:
    """Return the path of a URL of a file, or an empty string for http and https."""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else ""


def checked_backoff(value: Callable[[str], Value], key: str, key_max: str) -> tuple[int, int]:
    """Return the first pause after a failure, and the time in which it is tried again (Retry). Raises ConfigError."""
    backoff_ms, backoff_ms_max = value(key), value(key_max)
    assert isinstance(backoff_ms, int) and isinstance(backoff_ms_max, int)
    if backoff_ms < 0 or backoff_ms_max < 0:
        raise ConfigError(f"{key}={backoff_ms} and {key_max}={backoff_ms_max} must be non-negative")
    if backoff_ms_max < backoff_ms:
        raise ConfigError(f"{key_max}={backoff_ms_max} is less than {key}={backoff_ms}")
    return backoff_ms, backoff_ms_max


def checked_claim(value: Callable[[str], Value], name: str) -> str:
    """Return the name of a claim, which is the value of a key. Raises ConfigError if it is blank."""
    claim = str(value(name)).strip()
    if not claim:
        raise ConfigError(f"{name} value must not contain only whitespace")
    return claim
