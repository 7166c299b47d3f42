"""Java properties files, as `java.util.Properties` reads and writes them: zoo.cfg, server.properties, memberships.

The format has natural lines and logical lines.  A natural line ends at a line feed, a carriage return, or both.  A
logical line is a blank line, a comment, or a key with its value:

| text | meaning |
| --- | --- |
| blanks before a line | skipped; blanks are space, tab and form feed |
| `#` or `!` first | a comment, which a backslash does not continue |
| an odd number of backslashes at the end | the next natural line continues this one, without its leading blanks |
| the first `=`, `:` or blank, without a backslash | ends the key; blanks around it are skipped |
| `\\t`, `\\n`, `\\r`, `\\f`, `\\uXXXX` | a control character or a UTF-16 code unit |
| any other backslash | dropped; the character after it stands for itself |

Blanks after a value are kept. A file is encoded in ISO-8859-1: each byte is one character. If two lines have the same
key, the last one applies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

JAVA_BLANKS = "".join(map(chr, range(33)))
"""Characters that Java's String.trim removes: the space and every control character before it."""
_BLANKS = " \t\f"
_LINE_END = re.compile(r"(\r\n|\n|\r)")
"""Ends of natural lines. Python's splitlines() would split at more characters."""
_PROPERTY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES = {char: "\\" + letter for letter, char in _ESCAPED.items()} | {"\\": "\\\\"}


class BadProperties(ValueError):
    """Raised for properties that Java cannot read; the message gives the reason."""


class LogicalLine(NamedTuple):
    """A logical line of a properties text.

    `source`: its natural lines, with their line ends. `content`: the unparsed key and value if the line is a property,
    otherwise None.
    """

    source: str
    content: str | None


def logical_lines(text: str) -> Iterator[LogicalLine]:
    """Split a properties text into logical lines; their joined sources equal the text."""
    source = content = ""
    continues = False
    parts = _LINE_END.split(text)
    for natural, end in zip(parts[::2], [*parts[1::2], ""], strict=True):
        if continues and not natural + end and not source.endswith("\r\n"):
            # The input ends after a continuation character: the line is complete, as in java.util.Properties.
            break
        source += natural + end
        line = natural.lstrip(_BLANKS)
        if not content and line[:1] in ("#", "!"):
            line = ""
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        content += line[:-1] if continues else line
        if not continues:
            yield LogicalLine(source, content or None)
            source = content = ""
    if source:
        # At the end of input, a single backslash is an (empty) property, not a blank line.
        yield LogicalLine(source, content)


def split_property(content: str) -> tuple[str, str]:
    """Return the key and the value of a property.  Raises BadProperties."""
    found = _PROPERTY.fullmatch(content)
    assert found is not None, "a logical line ends with an escape that is complete"
    return _unescaped(found[1]), _unescaped(found[2])


def read_properties(text: str) -> dict[str, str]:
    """Return the keys and values of a properties text.  Raises BadProperties."""
    return dict(split_property(line.content) for line in logical_lines(text) if line.content is not None)


def decode_properties(data: bytes) -> str:
    """Return the text of a properties file."""
    return data.decode("iso-8859-1")


def trimmed(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with keys and values trimmed, as Java's configuration classes do."""
    return {key.strip(JAVA_BLANKS): value.strip(JAVA_BLANKS) for key, value in properties.items()}


def property_line(key: str, value: str) -> str:
    """Return a property line, without its line end, that Java and `read_properties` parse as this key and value.

    The key must need no escapes. The line is ASCII, so that it is the same in every encoding.
    """
    escaped = "".join(_escaped(char) for char in value)
    return f"{key}=" + ("\\" + escaped if escaped.startswith(" ") else escaped)


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if " " <= char <= "~":
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_character, text)
    # A character beyond U+FFFF is written as two escapes, one for each UTF-16 code unit.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _character(escape: re.Match[str]) -> str:
    what = escape[1]
    if what == "u":
        found = escape.string[escape.start() : escape.start() + 6]
        raise BadProperties(f"{found} is not \\u and four hexadecimal digits")
    return chr(int(what[1:], 16)) if len(what) > 1 else _ESCAPED.get(what, what)
