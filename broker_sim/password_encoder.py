"""Encrypts passwords for znodes below /config, in the format of Kafka's EncryptingPasswordEncoder.

A value is a list of `name:value` pairs, separated by commas: how the key was derived from password.encoder.secret
(PBKDF2), the cipher (AES in CBC or GCM mode) and the encrypted password. A broker decrypts with the stored parameters,
and encrypts with its own. Needs the extra `zabka[tls]`.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.encoder_keys import KEY_BITS, EncoderKeys, digest_of, mode_of
from zabka.ensemble.runtime.extras import is_installed, sentence

_SALT_BYTES = 256
_IV_BYTES = {"CBC": 16, "GCM": 12}
_TAG_BYTES = 16
_BLOCK_BYTES = 16
ITERATIONS_MAX = 1_000_000
"""Maximum number of iterations that a stored password can require, because a broker does nothing else meanwhile."""


class PasswordEncoder:
    """Encrypts and decrypts passwords. `random_bytes(count)` returns unpredictable bytes."""

    def __init__(self, keys: EncoderKeys, random_bytes: Callable[[int], bytes]) -> None:
        self._keys = keys
        self._random_bytes = random_bytes

    def encode(self, password: str) -> str:
        """Return an encrypted password. Raises ConfigError."""
        keys = self._keys
        mode, salt = mode_of(keys.cipher_algorithm), self._random_bytes(_SALT_BYTES)
        vector = self._random_bytes(_IV_BYTES[mode])
        key = self._key(keys.keyfactory_algorithm, salt, keys.iterations, keys.key_length)
        parts = {
            "initializationVector": b64encode(vector).decode(),
            "keyLength": str(keys.key_length),
            "salt": b64encode(salt).decode(),
            "keyFactoryAlgorithm": keys.keyfactory_algorithm,
            "cipherAlgorithm": keys.cipher_algorithm,
            "iterations": str(keys.iterations),
            "passwordLength": str(_java_length(password)),
            "encryptedPassword": b64encode(_encrypted(mode, key, vector, password.encode())).decode(),
        }
        if mode == "GCM":
            parts["authenticationTagLength"] = str(8 * _TAG_BYTES)
        return ",".join(f"{name}:{value}" for name, value in parts.items())

    def decode(self, encoded: str) -> str:
        """Return a decrypted password. Raises ConfigError if it was encrypted in another way or is damaged."""
        parts = dict(part.strip().rpartition(":")[::2] for part in encoded.split(","))
        try:
            mode, iterations = mode_of(parts["cipherAlgorithm"]), int(parts["iterations"])
            if not 0 < iterations <= ITERATIONS_MAX or int(parts["keyLength"]) not in KEY_BITS:
                raise ConfigError("Password could not be decoded")
            salt, vector = b64decode(parts["salt"]), b64decode(parts["initializationVector"])
            key = self._key(parts["keyFactoryAlgorithm"], salt, iterations, int(parts["keyLength"]))
            password = _decrypted(mode, key, vector, b64decode(parts["encryptedPassword"])).decode()
            if _java_length(password) != int(parts["passwordLength"]):
                raise ConfigError("Password could not be decoded, sanity check of length failed")
        except (KeyError, ValueError):
            raise ConfigError("Password could not be decoded") from None
        return password

    def _key(self, algorithm: str, salt: bytes, iterations: int, bits: int) -> bytes:
        return hashlib.pbkdf2_hmac(digest_of(algorithm), self._keys.secret.encode(), salt, iterations, bits // 8)


def _cipher(mode: str, key: bytes, vector: bytes, tag: bytes | None = None) -> Any:
    """Return AES with this key. Raises ConfigError if the extra is missing, ValueError for a bad vector or tag."""
    if not is_installed("tls"):
        raise ConfigError(sentence("tls", "what encrypts passwords is"))
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(key), modes.CBC(vector) if mode == "CBC" else modes.GCM(vector, tag))


def _encrypted(mode: str, key: bytes, vector: bytes, plain: bytes) -> bytes:
    encryptor = _cipher(mode, key, vector).encryptor()
    if mode == "GCM":
        content = encryptor.update(plain) + encryptor.finalize()
        return bytes(content + encryptor.tag)
    padding = _BLOCK_BYTES - len(plain) % _BLOCK_BYTES
    return bytes(encryptor.update(plain + bytes([padding]) * padding) + encryptor.finalize())


def _decrypted(mode: str, key: bytes, vector: bytes, encrypted: bytes) -> bytes:
    """Return the plain text. Raises ValueError if the key is wrong or the text is damaged."""
    from cryptography.exceptions import InvalidTag

    content, tag = (encrypted, None) if mode == "CBC" else (encrypted[:-_TAG_BYTES], encrypted[-_TAG_BYTES:])
    decryptor = _cipher(mode, key, vector, tag).decryptor()
    try:
        plain = bytes(decryptor.update(content) + decryptor.finalize())
    except InvalidTag:
        raise ValueError("a wrong key") from None
    if mode == "GCM":
        return plain
    padding = plain[-1] if plain else 0
    if not 1 <= padding <= _BLOCK_BYTES or plain[-padding:] != bytes([padding]) * padding:
        raise ValueError("a wrong key")
    return plain[:-padding]


def _java_length(text: str) -> int:
    """Return the length of a text in Java: the number of its UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2
