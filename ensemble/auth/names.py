"""Distinguished names as the `x509` scheme writes them: X500Principal.getName(), in the format of RFC 2253.

`subject_of` reads the subject of a DER certificate (X.509, RFC 5280 section 4.1); `is_distinguished_name` checks what
X500Principal accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zabka.ensemble.jute import MalformedRecord

_KEYWORDS = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU",
    "2.5.4.9": "STREET", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}  # fmt: skip
"""Attribute types that RFC 2253 names; any other type is written as its object identifier."""
_KNOWN = frozenset(_KEYWORDS.values()) | {
    "S", "T", "IP", "DNQUALIFIER", "DNQ", "SURNAME", "GIVENNAME", "INITIALS", "GENERATION", "EMAIL", "EMAILADDRESS",
    "SERIALNUMBER",
}  # fmt: skip
_OID = re.compile(r"(?:OID\.)?[0-2](?:\.(?:0|[1-9][0-9]*))+", re.ASCII | re.IGNORECASE)
NAME_MAX = 16_384
"""Maximum length of a distinguished name; longer strings are rejected, because parsing them takes too long."""
_KEYWORD_MAX = 256
_SPECIAL = ',=+<>#;"\\'

_SEQUENCE, _SET, _OBJECT_ID, _VERSION = 0x30, 0x31, 0x06, 0xA0
_TEXT_TAGS = {
    0x0C: "utf-8", 0x13: "latin-1", 0x14: "latin-1", 0x16: "latin-1", 0x1B: "latin-1", 0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}  # fmt: skip


def subject_of(certificate: bytes) -> str:
    """Return the subject of a DER certificate as a distinguished name.

    Raises MalformedRecord if the certificate cannot be parsed.
    """
    fields = _elements(_only(_only(certificate, _SEQUENCE, more=True), _SEQUENCE, more=True))
    tag, _, _ = next(fields, (0, b"", b""))
    # Skip version (optional), serialNumber, signature, issuer and validity up to the subject.
    for _ in range(4 if tag == _VERSION else 3):
        next(fields, None)
    tag, name, _ = next(fields, (0, b"", b""))
    if tag != _SEQUENCE:
        raise MalformedRecord("a certificate without a subject")
    parts = [_relative_name(content) for tag, content, _ in _elements(name) if tag == _SET]
    return ",".join(reversed(parts))


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (tag, content, whole element) of each DER element."""
    pos = 0
    while pos < len(data):
        if len(data) < pos + 2:
            raise MalformedRecord("DER cut short")
        tag, size, start = data[pos], data[pos + 1], pos + 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[start : start + count], "big")
            start += count
        if start + size > len(data):
            raise MalformedRecord("DER cut short")
        yield tag, data[start : start + size], data[pos : start + size]
        pos = start + size


def _only(data: bytes, wanted: int, *, more: bool = False) -> bytes:
    """Return the content of the first DER element in `data`, which must have the tag `wanted`.

    Other elements may follow it only if `more` is set. Raises MalformedRecord.
    """
    for tag, content, whole in _elements(data):
        if tag == wanted and (more or len(whole) == len(data)):
            return content
        break
    raise MalformedRecord(f"DER without the expected element 0x{wanted:02x}")


def _relative_name(data: bytes) -> str:
    return "+".join(_attribute(content) for tag, content, _ in _elements(data) if tag == _SEQUENCE)


def _attribute(data: bytes) -> str:
    parts = list(_elements(data))
    if len(parts) != 2 or parts[0][0] != _OBJECT_ID:
        raise MalformedRecord("a name's attribute that is no pair")
    oid = _object_id(parts[0][1])
    tag, content, whole = parts[1]
    keyword = _KEYWORDS.get(oid)
    encoding = _TEXT_TAGS.get(tag)
    if keyword is None or encoding is None:
        return f"{keyword or oid}=#{whole.hex()}"
    try:
        return f"{keyword}={_escaped(content.decode(encoding))}"
    except UnicodeDecodeError:
        raise MalformedRecord("a name that is no text") from None


def _object_id(data: bytes) -> str:
    if not data or data[-1] & 0x80:
        raise MalformedRecord("an object identifier cut short")
    numbers: list[int] = []
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _escaped(value: str) -> str:
    """Return an attribute value of a distinguished name, with special characters escaped as Java does.

    The format is defined in RFC 2253 section 2.4.
    """
    out = "".join("\\00" if char == "\0" else f"\\{char}" if char in _SPECIAL else char for char in value)
    body = out.lstrip(" ")
    out = "\\ " * (len(out) - len(body)) + body
    body = out.rstrip(" ")
    # If the value consists only of spaces, the lines above have already escaped all of them.
    return body + "\\ " * (len(out) - len(body)) if body and not body.endswith("\\") else out


_VALUE = re.compile(
    r"\s*(?:#((?:[0-9a-fA-F]{2})+)"
    r'|"(?:[^"\\]|\\.)*"'
    r'|(?!#)(?:[^,;+<>"\\]|\\[0-9a-fA-F]{2}|\\.)*)\s*'
)


def is_distinguished_name(text: str) -> bool:
    """Return whether X500Principal accepts the string: empty, or `KEYWORD=value` parts joined by `,`, `;` or `+`."""
    if len(text) > NAME_MAX:
        return False
    if not text:
        return True
    pos = 0
    while True:
        equals = text.find("=", pos, pos + _KEYWORD_MAX)
        name = text[pos : max(equals, pos)].strip()
        if not (name.upper() in _KNOWN or _OID.fullmatch(name)):
            return False
        match = _VALUE.match(text, equals + 1)
        if match is None or not (match[1] is None or _is_der(bytes.fromhex(match[1]))):
            return False
        pos = match.end()
        if pos == len(text):
            return True
        if text[pos] not in ",;+":
            return False
        pos += 1


def _is_der(data: bytes) -> bool:
    """Return whether the data is exactly one DER element."""
    try:
        return len(list(_elements(data))) == 1
    except MalformedRecord:
        return False
