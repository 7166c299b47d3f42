"""The keys password.encoder.…: how passwords below /config are encrypted (PasswordEncoderConfigs)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import ConfigError, Value

KEY_BITS = (128, 192, 256)
_DERIVATION = "PBKDF2WithHmac"


class EncoderKeys(NamedTuple):
    """The keys password.encoder.…, without the prefix."""

    secret: str
    keyfactory_algorithm: str
    cipher_algorithm: str
    key_length: int
    iterations: int

    def __repr__(self) -> str:
        """Representation without the secret."""
        return f"EncoderKeys({self.keyfactory_algorithm}, {self.cipher_algorithm})"


def read_encoder(values: Mapping[str, Value]) -> EncoderKeys | None:
    """Return the keys of the encoder, or None without password.encoder.secret. Raises ConfigError."""
    if not values["password.encoder.secret"]:
        return None
    length, iterations = values["password.encoder.key.length"], values["password.encoder.iterations"]
    assert isinstance(length, int) and isinstance(iterations, int)
    algorithm = str(values["password.encoder.keyfactory.algorithm"]) or f"{_DERIVATION}SHA512"
    cipher = str(values["password.encoder.cipher.algorithm"])
    digest_of(algorithm)
    mode_of(cipher)
    if length not in KEY_BITS:
        raise ConfigError(f"password.encoder.key.length={length}: a key of AES has {KEY_BITS} bits")
    return EncoderKeys(str(values["password.encoder.secret"]), algorithm, cipher, length, iterations)


def digest_of(algorithm: str) -> str:
    """Return the digest of a key derivation, in hashlib's spelling. Raises ConfigError."""
    digest = algorithm.removeprefix(_DERIVATION).lower()
    if not algorithm.startswith(_DERIVATION) or digest not in ("sha1", "sha224", "sha256", "sha384", "sha512"):
        raise ConfigError(
            f"password.encoder.keyfactory.algorithm={algorithm} is not supported. Set {_DERIVATION}SHA512"
        )
    return digest


def mode_of(algorithm: str) -> str:
    """Return the mode of an AES cipher, given Java's name. Raises ConfigError."""
    if algorithm == "AES/CBC/PKCS5Padding":
        return "CBC"
    if algorithm == "AES/GCM/NoPadding":
        return "GCM"
    raise ConfigError(f"password.encoder.cipher.algorithm={algorithm} is not supported. Set AES/CBC/PKCS5Padding")
