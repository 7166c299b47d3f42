"""Expired certificates in the trust store: finds them, and checks the dates of the chains that they sign.

Java does not check the dates of certificates in a trust store: an anchor is a name and a key (RFC 5280, section 6.1.1;
sun.security.validator.PKIXValidator accepts a certificate that is itself trusted). OpenSSL checks the dates of the
whole chain, including the anchor. If Java's behaviour is configured, OpenSSL's date checks are disabled, and this
module checks the dates of every certificate except the anchor, after the handshake.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography import x509

NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module does not define."""


def expired(anchors: Iterable[x509.Certificate], now: datetime.datetime) -> Iterator[str]:
    """Yield a text with the name and the expiry date of each expired anchor (trusted certificate)."""
    for anchor in anchors:
        if anchor.not_valid_after_utc < now:
            yield f"{anchor.subject.rfc4514_string()} expired on {anchor.not_valid_after_utc:%Y-%m-%d}"


def encoded(certificate: x509.Certificate) -> bytes:
    """Return the DER encoding of a certificate."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.DER)


def outdated(chain: Sequence[bytes], anchors: frozenset[bytes], now: datetime.datetime) -> str | None:
    """Return why a certificate chain (DER) is not valid at the time `now`, or None if it is.

    The dates of certificates in `anchors` are not checked.
    """
    from cryptography.x509 import load_der_x509_certificate

    for each in chain:
        if each in anchors:
            continue
        try:
            certificate = load_der_x509_certificate(each)
        except ValueError as bad:
            return f"its certificate cannot be read: {bad}"
        subject = certificate.subject.rfc4514_string()
        if certificate.not_valid_after_utc < now:
            return f"its certificate {subject} expired on {certificate.not_valid_after_utc:%Y-%m-%d}"
        if certificate.not_valid_before_utc > now:
            return f"its certificate {subject} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d}"
    return None


def chain_of(transport: asyncio.BaseTransport) -> list[bytes]:
    """Return the certificate chain (DER) that OpenSSL verified for the other side; empty without a certificate.

    For a resumed session, return only the other side's certificate.
    """
    secured = transport.get_extra_info("ssl_object")
    if secured is None:
        return []
    own = secured.getpeercert(binary_form=True)
    return verified_chain(secured) or ([own] if own is not None else [])


def verified_chain(secured: Any) -> list[bytes]:
    """Call `SSLObject.get_verified_chain`, which is a public method since Python 3.13."""
    if hasattr(secured, "get_verified_chain"):
        public: list[bytes] = secured.get_verified_chain()
        return public
    found = secured._sslobj.get_verified_chain() or []
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in found]
