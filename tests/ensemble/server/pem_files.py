"""Certificates for tests, created with `openssl` and signed by one authority."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl cannot be found")


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """Certificate authority in a directory. `ca` is its certificate. `store(...)` creates a key with a certificate
    chain.
    """

    def __init__(self, directory: Path, name: str = "ca") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.ca = directory / f"{name}.pem"
        self._key = directory / f"{name}.key"
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
            "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.ca,
        )  # fmt: skip

    def issue(self, name: str, subject: str, alternatives: str = "") -> tuple[Path, Path]:
        """Create the certificate and key files of one identity. `alternatives` looks like
        "DNS:localhost,IP:127.0.0.1"."""
        key, request, certificate = (self.directory / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        _openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
            "-keyout", key, "-out", request,
        )  # fmt: skip
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\n" if alternatives else "basicConstraints=CA:FALSE\n")
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self._key, "-CAcreateserial", "-days", 2,
            "-extfile", extensions, "-out", certificate,
        )  # fmt: skip
        return certificate, key

    def store(self, name: str, subject: str, alternatives: str = "", password: str = "") -> Path:
        """Create one PEM file with key and chain, in the format of `keyStore.location`."""
        certificate, key = self.issue(name, subject, alternatives)
        if password:
            locked = self.directory / f"{name}.locked"
            _openssl("pkcs8", "-topk8", "-in", key, "-passout", f"pass:{password}", "-out", locked)
            key = locked
        path = self.directory / f"{name}.pem"
        path.write_bytes(key.read_bytes() + certificate.read_bytes() + self.ca.read_bytes())
        return path
