"""Authentication schemes and ACL ids. All tables were checked with Apache ZooKeeper 3.9.5."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zabka.ensemble.auth.addresses import canonical_address, within
from zabka.ensemble.auth.jaas import DIGEST_MODULE, digest_users
from zabka.ensemble.auth.names import subject_of
from zabka.ensemble.auth.policy import AuthPolicy
from zabka.ensemble.auth.schemes import digest_of, is_valid, matches, opens
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.records import ACL, OPEN_ACL
from zabka.ensemble.tree.acl import READ_ACL, allows, fixed_up, interned, masked

ANYONE = ACL(31, "world", "anyone")
VALID = {
    "ip": "1.2.3.4 01.2.3.4 +1.2.3.4 1.2.3.4/0 1.2.3.4/32 ::1 :: ::1/64 1:2:3:4:5:6:7:8 1:2:3:4:5:6:7::",
    "digest": "a:b a:b: :b",
    "sasl": "u u@R u/h@R @ / a/b a/b/c u@",
    "x509": "CN=a CN=a,O=b cn=a CN= 1.2.3=a OID.1.2.3=a CN=a;O=b CN=a+O=b CN=#0c0161 CN=a\\,b UID=1 S=x DNQ=x CN=a=b",
}
INVALID = {
    "ip": "1.2.3 1.2.3.256 1.2.3.4/33 1.2.3.4/-1 1.2.3.4/ ::1/129 1:2:3:4:5:6:7 ::12345 1::2::3 ::ffff:1.2.3.4",
    "digest": "a a: a:: a:b:c : ::",
    "sasl": "u@R@S a/b/c@R",
    "x509": 'CN =a X=a 3.1=x CN=a,b CN="a CN=a\\ CN=#04 CN=#0 CN=#zz CN=a<b foo=bar',
    "world": "x",
    "super": "x",
    "nope": "x",
}


@pytest.mark.parametrize(("scheme", "text"), VALID.items())
def test_valid_acl_ids_of_a_scheme_are_accepted(scheme: str, text: str) -> None:
    assert [i for i in text.split() if not is_valid(scheme, i)] == []


@pytest.mark.parametrize(("scheme", "text"), INVALID.items())
def test_invalid_acl_ids_of_a_scheme_are_rejected(scheme: str, text: str) -> None:
    assert [i for i in text.split() if is_valid(scheme, i)] == []
    assert is_valid(scheme, "") is (scheme in ("sasl", "x509"))


@pytest.mark.parametrize(
    ("address", "network", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.0/8", True),
        ("128.0.0.1", "127.0.0.0/8", False),
        ("10.1.2.3", "10.1.2.255/24", True),
        ("10.1.2.3", "0.0.0.0/0", True),
        ("10.1.2.130", "10.1.2.128/25", True),
        ("10.1.2.127", "10.1.2.128/25", False),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("fe80:0:0:0:1:2:3:4", "fe80::/10", True),
        ("fec0:0:0:0:1:2:3:4", "fe80::/10", False),
        ("127.0.0.1", "::/0", False),
        ("unknown", "0.0.0.0/0", False),
        ("127.0.0.1", "nonsense", False),
    ],
)
def test_ip_acl_matches_addresses_with_the_same_prefix_bits(address: str, network: str, expected: bool) -> None:
    assert within(address, network) is expected
    assert matches("ip", address, network) is expected


@pytest.mark.parametrize("credentials", [b"14", b"-21", b"0", b"+7"])
def test_key_scheme_accepts_multiples_of_the_key(credentials: bytes) -> None:
    assert opens(b"7", credentials) and opens(b"-7", credentials) and opens(b"0", credentials)


@pytest.mark.parametrize("credentials", [b"8", b"", b" 7", b"x", b"7.0", b"\xff", b"2147483653"])
def test_key_scheme_rejects_values_that_are_no_multiple(credentials: bytes) -> None:
    assert not opens(b"7", credentials)
    assert not opens(b"x", b"7") and not opens(b"", b"0")


def test_ip_addresses_are_formatted_as_in_java() -> None:
    assert canonical_address("::1") == "0:0:0:0:0:0:0:1"
    assert canonical_address("fe80::a00:1%eth0") == "fe80:0:0:0:0:0:a00:1"
    assert canonical_address("::ffff:10.0.0.1") == "10.0.0.1"
    assert canonical_address("10.0.0.1") == "10.0.0.1"
    assert canonical_address("unknown") == "unknown"


def test_acl_id_matches_only_its_user_or_the_sasl_super_user() -> None:
    assert matches("sasl", "ann", "ann")
    assert matches("sasl", "super", "ann")
    assert not matches("sasl", "bob", "ann")
    assert matches("x509", "CN=ann", "CN=ann")
    assert not matches("x509", "cn=ann", "CN=ann")
    assert not matches("nope", "a", "a")


def test_digest_is_the_hash_of_name_and_password() -> None:
    assert digest_of("super:test") == "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
    assert digest_of("ann:a:b").startswith("ann:")
    assert digest_of("ann:x", "sha256") != digest_of("ann:x")


# -- ACLs ------------------------------------------------------------------------------------------------------------


def test_open_acl_is_one_shared_object() -> None:
    assert fixed_up([ANYONE], ()) is OPEN_ACL
    assert fixed_up([ANYONE, ANYONE], ()) == OPEN_ACL


def test_duplicate_acls_are_removed_and_an_empty_list_is_invalid() -> None:
    one = ACL(1, "ip", "10.0.0.0/8")
    assert fixed_up([one, ANYONE, one], ()) == (one, ANYONE)
    assert fixed_up([], ()) is None


def test_acl_with_an_unconfigured_scheme_is_invalid() -> None:
    entry = ACL(31, "sasl", "ann")
    assert fixed_up([entry], ()) is None
    assert fixed_up([entry], (), {"sasl"}) == (entry,)
    assert fixed_up([ACL(31, "digest", "a:b")], (), {"ip"}) is None


def test_auth_acl_entry_expands_to_client_ids_except_addresses() -> None:
    proved = (("ip", "10.0.0.1"), ("super", ""), ("digest", "u:x"), ("sasl", "u"))
    assert fixed_up([ACL(3, "auth", "")], proved, {"ip", "digest"}) == (ACL(3, "digest", "u:x"),)
    assert fixed_up([ACL(3, "auth", "")], proved[:2]) is None


def test_acl_list_too_long_to_be_stored_is_invalid() -> None:
    """An ACL list that does not fit into the log or a snapshot is rejected.

    A client can add any number of identities, and each `auth` id in a list is replaced by all of them.
    """
    proved = tuple(("digest", f"user{i}:{'x' * 27}=") for i in range(200))
    asked = [ACL(32 * i + 31, "auth", "") for i in range(1, 8001)]
    assert fixed_up(asked, proved) is None
    few = fixed_up(asked[:50], proved)
    assert few is not None and len(few) == 50 * 200


def test_equal_acl_lists_share_an_object_freed_when_unused() -> None:
    """Equal ACL lists share one object, and lists that no znode uses any more are freed.

    Otherwise each of 100 long lists, set one after the other on one znode, would use 1 MiB of memory on every server.
    """
    first = interned([ACL(1, "digest", "u:first")])
    assert interned([ACL(1, "digest", "u:first")]) is first
    for way in range(11):
        interned([ACL(perms, "digest", f"u:{way}") for perms in range(10_000)])
    assert sys.getrefcount(first) == 2, "only here, and as an argument"
    assert interned(list(OPEN_ACL)) is OPEN_ACL


def test_super_user_passes_every_acl() -> None:
    other_user = (ACL(31, "digest", "u:x"),)
    assert allows(other_user, 1, (("super", ""),))
    assert not allows(other_user, 1, (("ip", "10.0.0.1"), ("digest", "v:x")))
    assert not allows(READ_ACL, 2, (("digest", "u:x"),))


def test_masked_acls_hide_only_password_hashes() -> None:
    listed = [ACL(31, "digest", "u:hash"), ACL(1, "ip", "::1"), ANYONE]
    assert masked(listed) == [ACL(31, "digest", "u:x"), ACL(1, "ip", "::1"), ANYONE]


# -- which schemes and sessions a server allows ----------------------------------------------------------------------


def test_super_user_exists_only_if_configured() -> None:
    assert AuthPolicy().authenticate("digest", b"super:test", ()) == (("digest", digest_of("super:test")),)
    policy = AuthPolicy(super_digest=digest_of("super:test"))
    assert policy.authenticate("digest", b"super:test", ())[0] == ("super", "")
    assert policy.authenticate("digest", b"super:wrong", ())[0][0] == "digest"


def test_certificate_subject_is_an_identity_or_the_super_user() -> None:
    assert AuthPolicy().identities_of("10.0.0.1", None) == (("ip", "10.0.0.1"),)
    assert AuthPolicy().identities_of("10.0.0.1", "CN=a") == (("ip", "10.0.0.1"), ("x509", "CN=a"))
    policy = AuthPolicy(x509_super_user="CN=root")
    assert ("super", "CN=root") in policy.identities_of("10.0.0.1", "CN=root")
    assert ("super", "CN=a") not in policy.identities_of("10.0.0.1", "CN=a")


def test_auth_packet_can_use_only_the_ip_and_digest_schemes() -> None:
    everything = AuthPolicy(schemes=frozenset({"ip", "digest", "sasl", "x509"}))
    present = (("ip", "10.0.0.1"), ("sasl", "u"))
    assert everything.authenticate("ip", b"", present) == (("ip", "10.0.0.1"),)
    for scheme in ("sasl", "x509", "world", "super", "auth", ""):
        assert everything.authenticate(scheme, b"x", present) == ()
    assert everything.authenticate("digest", None, ()) == ()
    assert AuthPolicy(schemes=frozenset({"ip"})).authenticate("digest", b"a:b", ()) == ()


def test_repr_of_the_auth_policy_contains_no_secret() -> None:
    policy = AuthPolicy(super_digest="super:topsecret", sasl_users={"ann": "topsecret"}, x509_super_user="CN=a")
    assert "topsecret" not in f"{policy!r} {policy}"


# -- certificates ----------------------------------------------------------------------------------------------------


def der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = bytes([len(body)]) if len(body) < 128 else bytes([0x81, len(body)])
    return bytes([tag]) + size + body


def attribute(oid: bytes, text: bytes, tag: int = 0x0C) -> bytes:
    return der(0x30, der(0x06, oid), der(tag, text))


def certificate(*relative: bytes) -> bytes:
    name = der(0x30, *(der(0x31, part) for part in relative))
    head = (der(0xA0, der(0x02, b"\2")), der(0x02, b"\1"), der(0x30), der(0x30), der(0x30))
    return der(0x30, der(0x30, *head, name, der(0x30)), der(0x30), der(0x03))


CN, ORG, C, MAIL = b"\x55\x04\x03", b"\x55\x04\x0a", b"\x55\x04\x06", b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01"


def test_certificate_subject_is_formatted_as_in_rfc_2253() -> None:
    ann = certificate(attribute(C, b"DE", 0x13), attribute(ORG, b"Zabka, Inc."), attribute(CN, b"ann"))
    assert subject_of(ann) == "CN=ann,O=Zabka\\, Inc.,C=DE"
    assert subject_of(certificate(attribute(CN, b" a  ") + attribute(ORG, "ö".encode()))) == "CN=\\ a\\ \\ +O=ö"
    assert subject_of(certificate(attribute(CN, b'<"#+;=\\>'))) == 'CN=\\<\\"\\#\\+\\;\\=\\\\\\>'
    assert subject_of(certificate(attribute(MAIL, b"a@b", 0x16))) == "1.2.840.113549.1.9.1=#1603614062"
    assert subject_of(certificate()) == ""


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x05\x30", b"\x30\x80", certificate()[:-20], b"\x31\0"])
def test_malformed_certificate_is_reported(data: bytes) -> None:
    with pytest.raises(MalformedRecord):
        subject_of(data)


# -- JAAS ------------------------------------------------------------------------------------------------------------

JAAS = f"""
/* all
   of it */ Client {{ {DIGEST_MODULE} required username="x" password="y"; }};
Server {{  // ours
    {DIGEST_MODULE} REQUIRED  # yes
    user_super="super \\"secret\\""
    user_ann=plain;
}};
Other {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; }};
Empty {{ }};
"""


def test_sasl_users_are_read_from_a_login_configuration_section() -> None:
    assert digest_users(JAAS, "Server") == {"super": 'super "secret"', "ann": "plain"}
    assert digest_users(JAAS, "Empty") == {}
    assert digest_users(JAAS, "None") is None
    assert digest_users("", "Server") is None


@pytest.mark.parametrize(
    ("text", "section", "message"),
    [
        (JAAS, "Other", "Krb5LoginModule; only .*DigestLoginModule is supported"),
        ("Server {", "Server", "does not end"),
        ("Server { }", "Server", "; is missing"),
        (f"Server {{ {DIGEST_MODULE} user_a=b; }};", "Server", "one of required.* is missing"),
        (f"Server {{ {DIGEST_MODULE} required user_a b; }};", "Server", "= is missing"),
        (f"Server {{ {DIGEST_MODULE} required user_a=; }};", "Server", "in the wrong place"),
        (f"Server {{ {DIGEST_MODULE} required\nuser_a=\"b; }};", "Server", "line 2 is malformed"),
        (f"Server {{ {DIGEST_MODULE} required", "Server", "does not end in ;"),
    ],
)  # fmt: skip
def test_malformed_login_configuration_is_reported(text: str, section: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        digest_users(text, section)


# -- arbitrary input -------------------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.text(), st.text(alphabet='CN=,;+\\"#0af<>:./@ %'), st.text(alphabet="0123456789.:/-", max_size=9000)
)


@given(TEXTS, TEXTS)
def test_any_id_or_address_is_matched_without_an_exception(one: str, other: str) -> None:
    for scheme in ("ip", "digest", "sasl", "x509", "nope"):
        is_valid(scheme, one)
        matches(scheme, one, other)
    canonical_address(one)


@given(st.binary())
def test_invalid_certificate_bytes_raise_only_malformed_record(data: bytes) -> None:
    for each in (data, certificate(data), certificate(attribute(data, data)), certificate(attribute(CN, data, 0x1E))):
        try:
            assert isinstance(subject_of(each), str)
        except MalformedRecord:
            continue


@given(TEXTS)
def test_login_configuration_parser_raises_only_value_error(text: str) -> None:
    for each in (text, f"Server {{ {text} }};", f"Server {{ {DIGEST_MODULE} required {text}; }};"):
        try:
            digest_users(each, "Server")
        except ValueError:
            continue


@pytest.mark.parametrize(
    "identity", ["C=," * 5_000, "C=," * 300_000, "9" * 5000, "1.2.3." + "4" * 5000, "=" * 900_000, "C=a\\" * 200_000]
)
def test_validation_of_a_very_long_acl_id_takes_linear_time(identity: str) -> None:
    for scheme in ("ip", "digest", "sasl", "x509"):
        is_valid(scheme, identity)
