"""Passwords in znodes have the format of Kafka's EncryptingPasswordEncoder."""

from __future__ import annotations

import secrets

import pytest

from zabka.broker_sim.configs.broker_config import config_from
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.encoder_keys import read_encoder
from zabka.broker_sim.password_encoder import PasswordEncoder

SECRET = "encoder-secret"
KAFKAS_CBC = (
    "initializationVector:9YXx0t4qR1dZeZuD2DGSMQ==,keyLength:128,salt:jJGT3WJix/kQa8SQ04b/hzf2/uX3xeb4O3j"
    "acOcOrqVo3So0yKyQ9P/jcV+EubqECLzs54rRfLvEf/n+PiQi+yi/m3zlkOAdWDyeLM9EKB7TEzwHR4ZHWFkELWYn39h04pekNR9"
    "Iu9ERXy18W43w4/CYOpHHP2n6i6rt2gxa1P5r8DAHwHV2mVIJ6hIsxYXDJRQC5vWgeW/KTwPgY4AJIsZ3KI9jXMAcmCvYX3keer/"
    "93SVykrfpQBFlTXaFBrWmjPStAAP2AKt1c6FtlZvEU0KMr7gdlmI//2QQaew6M9lvKKjxuJhkUw4+V62TvmxbTb/+QABe8wZvwy3"
    "HWt5VXw==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4"
    "096,passwordLength:11,encryptedPassword:dspE98DGv0k7nn0WSXZaLQ=="
)
KAFKAS_GCM = (
    "initializationVector:7GHpwiyrtbfXHSRZ,keyLength:256,salt:OAfyvq9wcVaNz72JcCxHisAjJl4MbMIaIxuzDXLRN8s"
    "r4bbC9BJyO3OehOIU5yI1i1uVEyjbCcPJM4fPrbcadV3up2j7NcSRPLO4zySLtV7Nyi9kEAWkXUGjtVolTh74Kdv+w1uTSbErXzl"
    "r7ppJU+1TIqFwYXoAMLFqM5XFHhdWZMq44o1j+a41niZmCZmBoEuj2JkEdla623LBgjPgtBCx2ycexA6lipolXAxtSC7YuysScXX"
    "1URt17neLWL2ufPKJRBVv6rGpic5+7+FLALQFfJxU62LF1lCWCrQCDT8rfdcb6MkfcnszznO9rRLj5DfQ+PTH2/S1wYEEXBClbQ="
    "=,keyFactoryAlgorithm:PBKDF2WithHmacSHA1,cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength:1"
    "28,iterations:1024,passwordLength:6,encryptedPassword:f08KLyuENR1H+EWNRQ0ZLedJ5dQUlA=="
)
"""Encrypted by Kafka 3.9.1's PasswordEncoder with the secret `SECRET`."""


def encoder(secret: str = SECRET, **more: object) -> PasswordEncoder:
    keys = {f"password.encoder.{name.replace('_', '.')}": str(value) for name, value in more.items()}
    config = config_from({"broker.id": "1", "zookeeper.connect": "h:1", "password.encoder.secret": secret, **keys})
    found = read_encoder(config.values)
    assert found is not None and secret not in repr(found)
    return PasswordEncoder(found, secrets.token_bytes)


@pytest.mark.parametrize(("encoded", "password"), [(KAFKAS_CBC, "päss:word,1"), (KAFKAS_GCM, "sesame")])
def test_password_that_kafka_has_encrypted_is_decoded(encoded: str, password: str) -> None:
    assert encoder().decode(encoded) == password


@pytest.mark.parametrize("password", ["", "sesame", "sixteen bytes ok", "päss 𝄞 word"])
@pytest.mark.parametrize("cipher", ["AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"])
def test_encoded_password_is_decoded_with_its_own_parameters(cipher: str, password: str) -> None:
    ours = encoder(cipher_algorithm=cipher, keyfactory_algorithm="PBKDF2WithHmacSHA256", key_length=256)
    encoded = ours.encode(password)
    assert encoder().decode(encoded) == password
    assert encoded != ours.encode(password)


@pytest.mark.parametrize("encoded", [KAFKAS_CBC, KAFKAS_GCM])
def test_wrong_secret_does_not_decode_a_password(encoded: str) -> None:
    with pytest.raises(ConfigError, match="Password could not be decoded"):
        encoder("another").decode(encoded)


@pytest.mark.parametrize(
    "damaged",
    [
        "", "plain", "a:b,c:d", KAFKAS_CBC.replace("4096", "2000000000"), KAFKAS_CBC.replace("4096", "0"),
        KAFKAS_CBC.replace("keyLength:128", "keyLength:8"), KAFKAS_CBC.replace("CBC", "ECB"),
        KAFKAS_CBC.replace("Length:11", "Length:12"), KAFKAS_CBC.replace("dspE", "dsp"), KAFKAS_GCM[:-8],
    ],
)  # fmt: skip
def test_damaged_password_is_rejected(damaged: str) -> None:
    with pytest.raises(ConfigError):
        encoder().decode(damaged)


@pytest.mark.parametrize(
    ("name", "value"), [("cipher_algorithm", "DES"), ("keyfactory_algorithm", "MD5"), ("key_length", 40)]
)
def test_unsupported_parameter_of_the_encoder_is_an_error(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"password.encoder.{name.replace('_', '.')}={value}"):
        encoder(**{name: value})
