"""The JAAS file that a zoo.cfg names, read where a section of it is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from zabka.ensemble.server.config.config_values import ConfigError, Values

T = TypeVar("T")
KEY = "java.security.auth.login.config"


def read_section(values: Values, section: str, parse: Callable[[str, str], T | None]) -> T | None:
    """What `parse` makes of the file's text and the section's name; None where no file is named, or it has no such
    section.

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
