"""The keys of SASL OAUTHBEARER: each sets a field of a listener's token keys, or is rejected with a reason."""

from __future__ import annotations

import pytest

from tests.broker_sim.configs.test_sasl_keys import OWN, configured
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.oauth_keys import (
    LOGIN_MODULE,
    OAUTH_KEYS,
    SIGNED_HANDLERS,
    UNSECURED_HANDLER,
    SignedTokenKeys,
    UnsecuredTokenKeys,
)

ENABLED = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
CALLBACK = f"{OWN}oauthbearer.sasl.server.callback.handler.class"
URL = "sasl.oauthbearer.jwks.endpoint.url"
SIGNED = {**ENABLED, CALLBACK: SIGNED_HANDLERS[0], URL: "https://id/keys"}
DEFAULTS = SignedTokenKeys("https://id/keys", frozenset(), "", 30, "scope", "sub", 3_600_000, 100, 10_000, {})


def login(*options: str) -> dict[str, str]:
    return {f"{OWN}oauthbearer.sasl.jaas.config": f"{LOGIN_MODULE} required {' '.join(options)};"}


def test_unsigned_tokens_are_the_default_and_logged_as_a_warning() -> None:
    for handler in ({}, {CALLBACK: UNSECURED_HANDLER}):
        config = configured(ENABLED, handler)
        assert config.sasl["CLIENTS"].tokens == UnsecuredTokenKeys("sub", "scope", (), 0)
        assert config.sasl["CLIENTS"].reauth_ms == {"OAUTHBEARER": 0}
        assert config.warnings == (
            "the listener CLIENTS accepts unsigned tokens of OAUTHBEARER, which any client can make for any user: use "
            f"it in tests only, or set {CALLBACK}",
        )


def test_login_module_options_configure_unsigned_tokens() -> None:
    options = (
        'unsecuredLoginStringClaim_sub="broker"', 'unsecuredValidatorPrincipalClaimName="name"',
        'unsecuredValidatorScopeClaimName="scp"', 'unsecuredValidatorRequiredScope=" a  b "',
        'unsecuredValidatorAllowableClockSkewMs="7"',
    )  # fmt: skip
    found = configured(ENABLED, login(*options)).sasl["CLIENTS"].tokens
    assert found == UnsecuredTokenKeys("name", "scp", ("a", "b"), 7)


@pytest.mark.parametrize("handler", SIGNED_HANDLERS)
def test_signed_tokens_have_kafkas_defaults(handler: str) -> None:
    config = configured(SIGNED, {CALLBACK: handler}, login())
    assert config.sasl["CLIENTS"].tokens == DEFAULTS and config.warnings == ()


@pytest.mark.parametrize(
    ("key", "text", "changed"),
    [
        ("clock.skew.seconds", "5", {"clock_skew_s": 5}),
        ("expected.audience", "a, b", {"audiences": frozenset({"a", "b"})}),
        ("expected.issuer", "https://id", {"issuer": "https://id"}),
        ("jwks.endpoint.refresh.ms", "60000", {"refresh_ms": 60_000}),
        ("jwks.endpoint.retry.backoff.max.ms", "500", {"backoff_ms_max": 500}),
        ("jwks.endpoint.retry.backoff.ms", "50", {"backoff_ms": 50}),
        ("jwks.endpoint.url", "file:///a%20b.json", {"url": "file:///a%20b.json"}),
        ("scope.claim.name", "scp", {"scope_claim": "scp"}),
        ("sub.claim.name", "client_id", {"sub_claim": "client_id"}),
    ],
)
def test_key_of_signed_tokens_sets_its_field(key: str, text: str, changed: dict[str, object]) -> None:
    name = f"sasl.oauthbearer.{key}"
    assert name in {each.name for each in OAUTH_KEYS}
    default = next(each.default for each in OAUTH_KEYS if each.name == name)
    expected = DEFAULTS._replace(**changed)  # type: ignore[arg-type]
    other = {name: "https://other" if key.endswith("url") else str(default) or "other"}
    for keys in ({name: text}, other | {f"{OWN}{name}": text}, other | {f"{OWN}oauthbearer.{name}": text}):
        found = configured(SIGNED, keys)
        assert found.sasl["CLIENTS"].tokens == expected and found.warnings == ()


def test_file_url_gives_the_path_of_the_keys() -> None:
    assert DEFAULTS.file == "" and DEFAULTS._replace(url="file:///a%20b.json").file == "/a b.json"
    assert DEFAULTS._replace(url="file:/k").file == "/k"


def test_trust_store_is_an_option_of_the_login_module() -> None:
    trust = {"ssl.truststore.location": "/ca.p12", "ssl.truststore.password": "pw", "ssl.truststore.type": "PKCS12"}
    config = configured(SIGNED, login(*(f'{name}="{text}"' for name, text in trust.items())))
    assert config.sasl["CLIENTS"].tokens == DEFAULTS._replace(trust=trust)
    assert "pw" not in repr(config.sasl["CLIENTS"].tokens) and "pw" not in str(config.effective())


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({CALLBACK: "a.B"}, f"Invalid value a.B for configuration {CALLBACK}: no classes are loaded. Set "),
        ({"sasl.server.callback.handler.class": SIGNED_HANDLERS[0]}, "only OAUTHBEARER has handlers to select"),
        ({CALLBACK.replace("clients", "CLIENTS"): UNSECURED_HANDLER}, f"with SASL OAUTHBEARER. Set {CALLBACK}"),
        ({CALLBACK.replace("clients", "client"): SIGNED_HANDLERS[0]}, f"with SASL OAUTHBEARER. Set {CALLBACK}"),
        (
            {"sasl.enabled.mechanisms": "SCRAM-SHA-256", CALLBACK: SIGNED_HANDLERS[0]},
            f"{CALLBACK} applies to no listener with SASL OAUTHBEARER. No listener has this mechanism",
        ),
        *(({name: "https://id/keys"}, f"listener CLIENTS: {URL} is set, but the listener accepts unsigned tokens")
          for name in (URL, f"{OWN}{URL}", f"{OWN}oauthbearer.{URL}")),
        ({CALLBACK: SIGNED_HANDLERS[0]}, f"signed tokens need the issuer's keys: set {OWN}oauthbearer.{URL}"),
        ({**SIGNED, URL: "ftp://id/keys"}, f"{URL}=ftp://id/keys is not a URL of http, https or file"),
        ({**SIGNED, URL: "https:///keys"}, "is not a URL of http, https or file"),
        ({**SIGNED, URL: "https://id:x/keys"}, "is not a URL of http, https or file"),
        ({**SIGNED, URL: "https://a:b@id/keys"}, "contains a user name or a password"),
        ({**SIGNED, "sasl.oauthbearer.sub.claim.name": " "}, "sub.claim.name value must not contain only whitespace"),
        ({**SIGNED, "sasl.oauthbearer.clock.skew.seconds": "-1"}, "Value must be at least 0"),
        ({**SIGNED, "sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "Value must be at least 1"),
        ({**SIGNED, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "99"}, "max.ms=99 is less than"),
        ({**SIGNED, **login('unsecuredValidatorRequiredScope="a"')}, "RequiredScope of the login module"),
        (login('ssl.truststore.location="/ca"'), "the option ssl.truststore.location of the login module"),
        (login('unsecuredValidatorScope="a"'), f"with {UNSECURED_HANDLER}: set unsecuredV"),
        (login('unsecuredValidatorRequiredScope="ä"'), "unsecuredValidatorRequiredScope: Invalid scope value: ä"),
        (login('unsecuredValidatorAllowableClockSkewMs="-1"'), "Value must be at least 0"),
        (login('unsecuredValidatorAllowableClockSkewMs="1s"'), "Not a number of type INT"),
        ({f"{OWN}oauthbearer.sasl.jaas.config": "a.B required;"}, f"the login module of OAUTHBEARER is {LOGIN_MODULE}"),
    ],
)  # fmt: skip
def test_unusable_oauth_key_is_rejected(keys: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        configured(ENABLED, keys)
    assert expected in str(wrong.value)


def test_key_of_signed_tokens_without_effect_logs_a_warning() -> None:
    issuer = "sasl.oauthbearer.expected.issuer"
    for name in (issuer, f"{OWN}{issuer}", f"{OWN}oauthbearer.{issuer}"):
        _, warning = configured(ENABLED, {name: "https://id"}).warnings
        assert warning.startswith(
            f"{name} has no effect here: no listener that it applies to verifies signed tokens. Set"
        )
    (warning,) = configured(SIGNED, {f"listener.name.plaintext.{URL}": "https://id/keys"}).warnings
    assert warning.startswith(f"listener.name.plaintext.{URL} has no effect here")
