"""Reader of the JAAS file that zoo.cfg names. It is read only when one of its sections is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from zabka.ensemble.server.config.config_values import ConfigError, Values

T = TypeVar("T")
KEY = "java.security.auth.login.config"


def read_section(values: Values, section: str, parse: Callable[[str, str], T | None]) -> T | None:
    """Return `parse(text, section)` for the text of the JAAS file.

    Return None if no file is configured or the section is missing.

    Raises ConfigError.
    """
    path = values.text(KEY, "")
    if not path:
        return None
    try:
        return parse(Path(path).read_text(), section)
    except (OSError, UnicodeDecodeError) as bad:
        reason = getattr(bad, "strerror", None) or "it is no text"
        raise ConfigError(f"{KEY}={path} cannot be read: {reason}") from None
    except ValueError as bad:
        raise ConfigError(f"{KEY}={path}: {bad}") from None
