"""The keys of logins with OAUTHBEARER: each sets a field for brokers and clients, or is rejected with a reason."""

from __future__ import annotations

import pytest

from tests.broker_sim.configs.test_inter_broker import SASL
from tests.broker_sim.configs.test_inter_broker import configured as of_brokers
from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.configs.client_properties import parse_client_properties
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.login_keys import (
    FETCHED_LOGINS,
    LOGIN_KEYS,
    UNSECURED_LOGIN,
    FetchedLogin,
    RefreshKeys,
    TokenLoginKeys,
    UnsecuredLogin,
)
from zabka.broker_sim.configs.oauth_keys import LOGIN_MODULE, UnsecuredTokenKeys

LISTENER = "listener.name.sasl_plaintext."
OWN = f"{LISTENER}oauthbearer."
HANDLER, URL = "sasl.login.callback.handler.class", "sasl.oauthbearer.token.endpoint.url"
BASE = SASL | dict.fromkeys(("sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol"), "OAUTHBEARER")
TRUST = {"ssl.truststore.location": "/ca.p12", "ssl.truststore.password": "s3cret", "ssl.truststore.type": "PKCS12"}
REFRESH = RefreshKeys(300, 60, 0.8, 0.05)
SOURCE = FetchedLogin(
    "https://id/token", "a", "s3cret", "", False, 20_000, 20_000, backoff_ms=100, backoff_ms_max=10_000,
    scope_claim="scope", sub_claim="sub", trust={},
)  # fmt: skip


def jaas(*options: str) -> str:
    return f"{LOGIN_MODULE} required {' '.join(options)};"


UNSECURED = {f"{OWN}sasl.jaas.config": jaas('unsecuredLoginStringClaim_sub="broker"')}
FETCHED = {
    f"{OWN}sasl.jaas.config": jaas('clientId="a"', 'clientSecret="s3cret"'),
    f"{OWN}{HANDLER}": FETCHED_LOGINS[0],
    f"{OWN}{URL}": "https://id/token",
}


def configured(*parts: dict[str, str]) -> KafkaConfig:
    return of_brokers(BASE, *parts)


def login(*parts: dict[str, str]) -> TokenLoginKeys:
    found = configured(*parts).credentials["SASL_PLAINTEXT"]
    assert isinstance(found, TokenLoginKeys)
    return found


def test_unsigned_token_is_the_default_login() -> None:
    expected = TokenLoginKeys(UnsecuredLogin({"unsecuredLoginStringClaim_sub": "broker"}), {}, REFRESH)
    assert login(UNSECURED) == login(UNSECURED, {f"{OWN}{HANDLER}": UNSECURED_LOGIN}) == expected


@pytest.mark.parametrize("handler", FETCHED_LOGINS)
def test_issuers_token_has_kafkas_defaults_and_hidden_secrets(handler: str) -> None:
    options = ('clientId=" a "', 'clientSecret="s3cret"', 'scope=" x "', 'extension_e="f"')
    trust = [f'{name}="{text}"' for name, text in TRUST.items()]
    config = configured(FETCHED, {f"{OWN}{HANDLER}": handler, f"{OWN}sasl.jaas.config": jaas(*options, *trust)})
    found = config.credentials["SASL_PLAINTEXT"]
    assert found == TokenLoginKeys(SOURCE._replace(scope="x", trust=TRUST), {"e": "f"}, REFRESH)
    assert isinstance(config.sasl["SASL_PLAINTEXT"].tokens, UnsecuredTokenKeys)
    assert "s3cret" not in repr(found) + str(config.effective())
    assert [text for text in config.warnings if "no effect" in text] == []


FIELDS = {
    "sasl.login.connect.timeout.ms": ("5", {"connect_timeout_ms": 5}),
    "sasl.login.read.timeout.ms": ("0", {"read_timeout_ms": None}),
    "sasl.login.retry.backoff.ms": ("7", {"backoff_ms": 7}),
    "sasl.login.retry.backoff.max.ms": ("700", {"backoff_ms_max": 700}),
    "sasl.oauthbearer.scope.claim.name": ("scp", {"scope_claim": "scp"}),
    "sasl.oauthbearer.sub.claim.name": ("id", {"sub_claim": "id"}),
    URL: ("file:///a%20b", {"url": "file:///a%20b", "client_id": "", "client_secret": ""}),
}
REFRESHES = {
    "sasl.login.refresh.buffer.seconds": ("10", {"buffer_s": 10}),
    "sasl.login.refresh.min.period.seconds": ("20", {"min_period_s": 20}),
    "sasl.login.refresh.window.factor": ("0.9", {"window_factor": 0.9}),
    "sasl.login.refresh.window.jitter": ("0.2", {"window_jitter": 0.2}),
}


def test_every_login_key_of_brokers_sets_a_field() -> None:
    assert {key.name for key in LOGIN_KEYS} <= {HANDLER, *FIELDS, *REFRESHES}
    for name, (text, changed) in FIELDS.items():
        expected = TokenLoginKeys(SOURCE._replace(**changed), {}, REFRESH)  # type: ignore[arg-type]
        general = {key: value for key, value in FETCHED.items() if not key.endswith(URL)} | {URL: "https://id/token"}
        for key in (name, f"{LISTENER}{name}", f"{OWN}{name}"):
            config = configured(general, {key: text})
            assert config.credentials["SASL_PLAINTEXT"] == expected
            assert not any("no effect" in warning for warning in config.warnings)
    for name, (text, changed) in REFRESHES.items():
        for key in (name, f"{LISTENER}{name}"):
            assert login(UNSECURED, {key: text}).refresh == REFRESH._replace(**changed)  # type: ignore[arg-type]
        config = configured(UNSECURED, {f"{OWN}{name}": text})
        assert config.credentials["SASL_PLAINTEXT"] == login(UNSECURED)
        assert any(warning.startswith(f"{OWN}{name} has no effect here") for warning in config.warnings)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({f"{OWN}{HANDLER}": "a.B"}, f"Invalid value a.B for configuration {OWN}{HANDLER}: no classes are loaded"),
        ({HANDLER: FETCHED_LOGINS[0]}, f"{HANDLER} applies to no listener with SASL OAUTHBEARER. Set {OWN}{HANDLER}"),
        ({f"{OWN}sasl.jaas.config": jaas('clientId="a"')}, "the option clientId of the login module"),
        ({**FETCHED, f"{OWN}{URL}": ""}, f"{URL} value must be non-null"),
        ({**FETCHED, f"{OWN}{URL}": "ftp://id"}, "is not a URL of http, https or file"),
        ({**FETCHED, f"{OWN}{URL}": "https://a:b@id/"}, "contains a user name or a password"),
        ({**FETCHED, f"{OWN}sasl.jaas.config": jaas('clientId="a"')}, "option clientSecret value must be non-null"),
        (
            {**FETCHED, f"{OWN}sasl.jaas.config": jaas('clientId=" "', "clientSecret=a")},
            "option clientId value must not contain only whitespace",
        ),
        ({**FETCHED, "sasl.login.retry.backoff.max.ms": "99"}, "max.ms=99 is less than sasl.login.retry.backoff.ms"),
        ({**FETCHED, "sasl.login.retry.backoff.ms": "-1"}, "must be non-negative"),
        ({**FETCHED, "sasl.login.connect.timeout.ms": "-1"}, "timeouts can't be negative"),
        ({**FETCHED, "sasl.oauthbearer.sub.claim.name": " "}, "sub.claim.name value must not contain only whitespace"),
    ],
)
def test_unusable_login_key_is_rejected(keys: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        configured(UNSECURED, keys)
    assert expected in str(wrong.value) and "s3cret" not in str(wrong.value)


def test_login_key_without_effect_logs_a_warning() -> None:
    for keys in ({URL: "https://id"}, {"listener.name.other.sasl.login.refresh.buffer.seconds": "1"}):
        (name,) = keys
        assert any(text.startswith(f"{name} has no effect here") for text in configured(UNSECURED, keys).warnings)
    warnings = of_brokers(SASL, {"sasl.login.refresh.window.factor": "0.9"}).warnings
    assert [text.partition(" ")[0] for text in warnings] == ["sasl.login.refresh.window.factor"]


# ---- clients -----------------------------------------------------------------------------------------------------

CLIENT = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config={LOGIN_MODULE} required"
OF_CLIENT = f"{CLIENT} clientId=a clientSecret=s3cret;\n{HANDLER}={FETCHED_LOGINS[1]}\n{URL}=https://id/token\n"


def test_login_keys_of_clients_set_the_same_fields() -> None:
    found = parse_client_properties(f"{CLIENT} unsecuredLoginStringClaim_sub=a;\n").credentials
    assert found == TokenLoginKeys(UnsecuredLogin({"unsecuredLoginStringClaim_sub": "a"}), {}, REFRESH)
    fields = {**FIELDS, "sasl.oauthbearer.header.urlencode": ("true", {"urlencodes": True})}
    for name, (text, changed) in fields.items():
        found = parse_client_properties(f"{OF_CLIENT}{name}={text}\n").credentials
        assert found == TokenLoginKeys(SOURCE._replace(**changed), {}, REFRESH)  # type: ignore[arg-type]
    for name, (text, changed) in REFRESHES.items():
        found = parse_client_properties(f"{OF_CLIENT}{name}={text}\n").credentials
        assert found == TokenLoginKeys(SOURCE, {}, REFRESH._replace(**changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (f"{HANDLER}=a.B", "no classes are loaded"),
        (f"{HANDLER}=", "No principal name in JWT claim: sub"),
        ("sasl.login.refresh.window.factor=0.4", "Value must be at least 0.5"),
        ("sasl.login.refresh.window.jitter=0.3", "Value must be no more than 0.25"),
        ("sasl.login.refresh.min.period.seconds=901", "Value must be no more than 900"),
        ("sasl.login.refresh.buffer.seconds=3601", "Value must be no more than 3600"),
        ("sasl.mechanism=PLAIN", "the login module of PLAIN is"),
        ("sasl.login.class=a.B", "sasl.login.class is not supported by zabka's clients"),
    ],
)
def test_unusable_login_key_of_a_client_is_rejected(change: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_client_properties(f"{OF_CLIENT}{change}\n")
