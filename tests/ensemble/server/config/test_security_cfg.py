"""The keys of zoo.cfg for authentication, TLS and limits: their defaults and effects.

An invalid value causes a one-line error.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.ensemble.server.config.limits import Limits, ThrottleSettings
from zabka.ensemble.server.config.security_cfg import HIDDEN
from zabka.ensemble.server.config.tls import TlsSettings
from zabka.ensemble.server.config.zoo_cfg import ConfigError, ZooConfig, parse

PROVIDER = "org.apache.zookeeper.server.auth."
JAAS = 'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="secret" user_super="one"; };'


def read(tmp_path: Path, *lines: str) -> ZooConfig:
    (tmp_path / "jaas").write_text(JAAS)
    (tmp_path / "pw").write_text("sesame\n")
    return parse("\n".join([f"dataDir={tmp_path}", "clientPort=2181", *lines]).replace("TMP", str(tmp_path)))


def test_defaults_are_zookeeper_limits_no_super_user_and_no_tls(tmp_path: Path) -> None:
    config = read(tmp_path)
    assert config.auth.schemes == {"ip", "digest"}
    assert (config.auth.super_digest, config.auth.sasl_super_users, config.auth.x509_super_user) == ("", (), "")
    assert (config.auth.sasl_users, config.auth.required_schemes, config.auth.skip_acl) == (None, (), False)
    assert (config.client_tls, config.quorum_tls, config.secure_client_port) == (None, None, None)
    assert config.whitelist == ("srvr",)
    assert config.limits == Limits()
    limits = config.limits
    assert (limits.per_host, limits.connections, limits.frame_bytes, limits.outstanding) == (60, 0, 0xFFFFF, 1000)
    assert (limits.large_request_bytes, limits.large_request_threshold, limits.in_process) == (100 << 20, -1, 0)
    assert limits.throttle.tokens == 0


def test_authentication_is_configured_with_zookeepers_keys(tmp_path: Path) -> None:
    config = read(
        tmp_path, f"authProvider.1={PROVIDER}SASLAuthenticationProvider",
        f"authProvider.x={PROVIDER}X509AuthenticationProvider",
        "DigestAuthenticationProvider.superDigest=super:hash", "DigestAuthenticationProvider.digestAlg=SHA-256",
        "X509AuthenticationProvider.superUser=CN=root,O=x", "java.security.auth.login.config=TMP/jaas",
        "superUser=ann", "superUser.2=bob", "SASLAuthenticationProvider.superPassword=two", "skipACL=yes",
        "allowSaslFailedClients=true", "enforce.auth.enabled=true", "enforce.auth.schemes=sasl, x509",
    )  # fmt: skip
    auth = config.auth
    assert auth.schemes == {"ip", "digest", "sasl", "x509"}
    assert (auth.super_digest, auth.digest_algorithm, auth.x509_super_user) == ("super:hash", "sha256", "CN=root,O=x")
    assert auth.sasl_users == {"ann": "secret", "super": "two"}
    assert (auth.sasl_super_users, auth.required_schemes) == (("ann", "bob"), ("sasl", "x509"))
    assert (auth.skip_acl, auth.sasl_failure_tolerated) == (True, True)
    assert config.warnings == ()


def test_less_common_auth_schemes_are_enabled_by_class_name(tmp_path: Path) -> None:
    auth = read(
        tmp_path, f"authProvider.1={PROVIDER}EnsembleAuthenticationProvider",
        f"authProvider.2={PROVIDER}KeyAuthenticationProvider", "ensembleAuthName=alpha, beta", "letAnySaslUserDoX=any",
    ).auth  # fmt: skip
    assert auth.schemes == {"ip", "digest", "ensemble", "key"}
    assert (auth.ensemble_names, auth.any_sasl_user) == ({"alpha", "beta"}, "any")


def test_sessions_can_be_required_to_use_sasl(tmp_path: Path) -> None:
    provider = f"authProvider.1={PROVIDER}SASLAuthenticationProvider"
    assert read(tmp_path, provider, "sessionRequireClientSASLAuth=true").auth.required_schemes == ("sasl",)


def test_tls_is_configured_with_zookeepers_keys(tmp_path: Path) -> None:
    config = read(
        tmp_path, "secureClientPort=2281", "secureClientPortAddress=127.0.0.1", "ssl.keyStore.location=/k.pem",
        "ssl.keyStore.passwordPath=TMP/pw", "ssl.trustStore.location=/t", "ssl.trustStore.type=PEM",
        "ssl.clientAuth=WANT", "ssl.clientHostnameVerification=true", "ssl.enabledProtocols=TLSv1.3",
        "ssl.ciphersuites=A,B", "client.certReload=true", "sslQuorum=true", "ssl.quorum.keyStore.location=/q.PEM",
        "ssl.quorum.keyStore.password=hush", "ssl.quorum.trustStore.location=/qt.pem",
    )  # fmt: skip
    assert (config.secure_client_address, config.secure_client_port) == ("127.0.0.1", 2281)
    assert config.client_tls == TlsSettings(
        prefix="ssl.", key_store=Path("/k.pem"), key_password="sesame", trust_store=Path("/t"), client_auth="want",
        verify_client_name=True, versions=("TLSv1.3",), ciphers=("A", "B"), handshake_timeout_ms=5000, reloads=True,
    )  # fmt: skip
    assert "x509" in config.auth.schemes
    assert config.ssl_quorum
    assert config.quorum_tls == TlsSettings(
        prefix="ssl.quorum.", key_store=Path("/q.PEM"), key_password="hush", trust_store=Path("/qt.pem"),
        verify_client_name=True, handshake_timeout_ms=5000,
    )  # fmt: skip
    assert config.warnings == ()


def test_quorum_hostname_verification_can_be_disabled(tmp_path: Path) -> None:
    config = read(
        tmp_path, "portUnification=true", "ssl.quorum.keyStore.location=/q.pem",
        "ssl.quorum.trustStore.location=/qt.pem", "ssl.quorum.hostnameVerification=false",
    )  # fmt: skip
    assert config.quorum_tls is not None
    assert (config.quorum_tls.verify_server_name, config.quorum_tls.verify_client_name) == (False, False)
    assert (config.ssl_quorum, config.port_unification) == (False, True)


def test_tls_port_without_a_plaintext_port_is_sufficient(tmp_path: Path) -> None:
    stores = "ssl.keyStore.location=/k.pem\nssl.trustStore.location=/t.pem"
    config = parse(f"dataDir={tmp_path}\nsecureClientPort=2281\n{stores}")
    assert (config.client_port, config.secure_client_port) == (None, 2281)


def test_limits_are_read_from_the_keys_in_the_zookeeper_guide(tmp_path: Path) -> None:
    config = read(
        tmp_path, "maxClientCnxns=0", "maxCnxns=5", "jute.maxbuffer=0x200000", "globalOutstandingLimit=7",
        "largeRequestMaxBytes=9", "largeRequestThreshold=8", "requestThrottleLimit=6", "throttled_op_wait_time=4",
        "connectionMaxTokens=10", "connection_throttle_fill_time=100", "connection_throttle_weight_enabled=true",
        "nio.sessionlessCnxnTimeout=1500",
    )  # fmt: skip
    assert config.limits == Limits(
        per_host=0, connections=5, frame_bytes=0x200000, outstanding=7, large_request_bytes=9,
        large_request_threshold=8, in_process=6, throttled_op_wait_ms=4, sessionless_timeout_ms=1500,
        throttle=ThrottleSettings(
            tokens=30, fill_time_ms=100, fill_count=3, new_session_weight=3, renewed_session_weight=2
        ),
    )  # fmt: skip
    assert config.warnings == ()


def test_small_jute_maxbuffer_is_used_unchanged(tmp_path: Path) -> None:
    """A jute.maxbuffer of any size is used, as in Java (Integer.getInteger)."""
    assert read(tmp_path, "jute.maxbuffer=400").limits.frame_bytes == 400


def test_repr_of_the_configuration_hides_its_secrets(tmp_path: Path) -> None:
    config = read(
        tmp_path, "ssl.quorum.keyStore.password=hush", "DigestAuthenticationProvider.superDigest=super:hash",
        "SASLAuthenticationProvider.superPassword=two", "java.security.auth.login.config=TMP/jaas",
        "ssl.trustStore.passwordPath=TMP/pw", "tickTime=500",
    )  # fmt: skip
    shown = config.values
    assert shown["ssl.quorum.keyStore.password"] == shown["DigestAuthenticationProvider.superDigest"] == HIDDEN
    assert shown["ssl.trustStore.passwordPath"] == str(tmp_path / "pw")
    assert shown["tickTime"] == "500"
    for secret in ("hush", "super:hash", "two", "secret"):
        assert secret not in repr(config)


KEY = "ssl.keyStore.location=/k.pem"
SECURE = "secureClientPort=1"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([SECURE], "ssl.keyStore.location is not set"),
        ([SECURE, KEY], "ssl.trustStore.location is not set: no certificate could be verified"),
        ([SECURE, "ssl.keyStore.location=/k.jks"], "JKS stores are not supported; convert it: keytool -importkeystore"),
        ([SECURE, KEY, "ssl.keyStore.type=bcfks"], "-srcstoretype BCFKS -destkeystore /k.p12 -deststoretype PKCS12"),
        ([SECURE, "ssl.keyStore.location=/k.txt"], "only PEM and PKCS12 stores are supported"),
        ([SECURE, KEY, "ssl.clientAuth=maybe"], "maybe is not need, want or none"),
        ([SECURE, KEY, "ssl.enabledProtocols=SSLv3"], "SSLv3 is not a list of TLSv1.2, TLSv1.3"),
        ([SECURE, KEY, "ssl.crl=true"], "ssl.crl=true needs zabka.ssl.crl.location"),
        ([SECURE, KEY, "ssl.ocsp=true"], "ssl.ocsp=true: no responder is asked here"),
        ([SECURE, KEY, "ssl.keyStore.passwordPath=/no/such"], "passwordPath=/no/such cannot be read: No such file"),
        (["secureClientPortAddress=::1"], "secureClientPortAddress is set but secureClientPort is not"),
        (["sslQuorum=true"], "ssl.quorum.keyStore.location is not set"),
        (["sslQuorum=true", "ssl.quorum.keyStore.location=/q.pem", "ssl.quorum.clientAuth=none"], "trustStore"),
        (["observerMasterPort=70000"], "observerMasterPort=70000 is not a number of at most 65535"),
        (["authProvider.1=com.example.Own"], "com.example.Own is no authentication provider that is known here"),
        (["DigestAuthenticationProvider.digestAlg=SHA-9"], "SHA-9 is not a digest algorithm"),
        (["enforce.auth.enabled=true"], "needs enforce.auth.schemes"),
        (["sessionRequireClientSASLAuth=true"], "clients must authenticate by sasl, but there is no authProvider"),
        (["java.security.auth.login.config=/no/such"], "cannot be read: No such file"),
        (["java.security.auth.login.config=TMP/pw"], "{ is missing"),
        (["jute.maxbuffer=0"], "jute.maxbuffer=0 is below 1, and no client could be served"),
        (["jute.maxbuffer=0x3000001"], "jute.maxbuffer=50331649 is above 50331648 (48 MiB)"),
        (["nio.sessionlessCnxnTimeout=0"], "nio.sessionlessCnxnTimeout=0 is below 1"),
        (["connectionDropIncrease=x"], "connectionDropIncrease=x is not a number"),
        (["connection_throttle_drop_decrease=nan"], "drop_decrease=nan is not a number"),
        (["connectionDecreaseRatio=inf"], "connectionDecreaseRatio=inf is not a number"),
        (["DigestAuthenticationProvider.digestAlg=SHAKE128"], "SHAKE128 is not a digest algorithm"),
    ],
)  # fmt: skip
def test_invalid_security_setting_is_reported_in_one_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, *lines)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_shown_zoo_cfg_hides_only_secrets(tmp_path: Path) -> None:
    text = (
        "# ssl.keyStore.password is set below\n"
        f"dataDir={tmp_path}\nclientPort=2181\n"
        "ssl.keyStore.password = one\\\n   two\n"
        "tickTime=\\\n  2000\n"
        "DigestAuthenticationProvider.superDigest:super:abc=\n"
        "initLimit=5"
    )
    assert parse(text).text == (
        "# ssl.keyStore.password is set below\n"
        f"dataDir={tmp_path}\nclientPort=2181\n"
        "ssl.keyStore.password=(hidden)\n"
        "tickTime=\\\n  2000\n"
        "DigestAuthenticationProvider.superDigest=(hidden)\n"
        "initLimit=5"
    )
