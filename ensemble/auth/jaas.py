"""Parser of a JAAS login configuration: returns the users and passwords of one section.

The format (javax.security.auth.login.Configuration, DigestLoginModule) is:

    Server {
        org.apache.zookeeper.server.auth.DigestLoginModule required
        user_ann="secret";
    };
"""

from __future__ import annotations

import re
from collections.abc import Iterator

DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
_USER = "user_"
_TOKEN = re.compile(r'\s+|//[^\n]*|#[^\n]*|/\*.*?\*/|("(?:[^"\\]|\\.)*"|[{};=]|[^\s{};="]+)', re.DOTALL)
_CONTROLS = ("required", "requisite", "sufficient", "optional")


def digest_users(text: str, section: str) -> dict[str, str] | None:
    """Return the passwords of a section, keyed by user, or None if there is no such section.

    Raises ValueError if the text is malformed, or if the section uses a module other than DigestLoginModule.
    """
    entries = _sections(_tokens(text)).get(section)
    if entries is None:
        return None
    users: dict[str, str] = {}
    for module, options in entries:
        if module != DIGEST_MODULE:
            raise ValueError(f"section {section} uses {module}; only {DIGEST_MODULE} is supported")
        users.update({key[len(_USER) :]: value for key, value in options.items() if key.startswith(_USER)})
    return users


def digest_login(text: str, section: str) -> tuple[str, str] | None:
    """Return the (user, password) that a section uses to log in, or None if there is no such section.

    Raises ValueError if the text is malformed, or if the section has no username and password for DigestLoginModule.
    """
    entries = _sections(_tokens(text)).get(section)
    if entries is None:
        return None
    for module, options in entries:
        if module != DIGEST_MODULE:
            raise ValueError(f"section {section} uses {module}; only {DIGEST_MODULE} is supported")
        if "username" in options and "password" in options:
            return options["username"], options["password"]
    raise ValueError(f"section {section} has no username and password")


def login_modules(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return the login modules and their options of a Kafka `sasl.jaas.config`, which is one section without its name.

    Raises ValueError if the text is malformed.
    """
    rest = iter(_tokens(text))
    return [(_plain(module), _options(rest)) for module in rest]


def _tokens(text: str) -> list[str]:
    out: list[str] = []
    pos = 0
    while pos < len(text):
        match = _TOKEN.match(text, pos)
        if match is None:
            raise ValueError(f"line {text.count(chr(10), 0, pos) + 1} is malformed")
        if match[1] is not None:
            out.append(match[1])
        pos = match.end()
    return out


_Entry = tuple[str, dict[str, str]]


def _sections(tokens: list[str]) -> dict[str, list[_Entry]]:
    sections: dict[str, list[_Entry]] = {}
    rest = iter(tokens)
    for name in rest:
        _expect(rest, "{")
        entries: list[_Entry] = []
        for module in rest:
            if module == "}":
                break
            entries.append((_plain(module), _options(rest)))
        else:
            raise ValueError("a section that does not end")
        _expect(rest, ";")
        sections[_plain(name)] = entries
    return sections


def _options(rest: Iterator[str]) -> dict[str, str]:
    control = next(rest, "")
    if control.lower() not in _CONTROLS:
        raise ValueError(f"one of {', '.join(_CONTROLS)} is missing behind a login module's name")
    options: dict[str, str] = {}
    for key in rest:
        if key == ";":
            return options
        _expect(rest, "=")
        options[_plain(key)] = _plain(next(rest, ""))
    raise ValueError("a login module that does not end in ;")


def _expect(rest: Iterator[str], token: str) -> None:
    if next(rest, "") != token:
        raise ValueError(f"{token} is missing")


def _plain(token: str) -> str:
    if token in ("", "{", "}", ";", "="):
        raise ValueError(f"{token!r} in the wrong place")
    if token.startswith('"'):
        return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
    return token
