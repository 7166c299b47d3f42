"""Rules for principals of certificates, with the cases of Kafka's SslPrincipalMapperTest."""

from __future__ import annotations

import pytest

from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.principal_mapping import PrincipalMapper
from zabka.broker_sim.principals import NoPrincipal

SEVERAL = ", ".join(
    (
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    )
)


@pytest.mark.parametrize(
    ("rules", "subject", "expected"),
    [
        (SEVERAL, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (SEVERAL, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (SEVERAL, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (SEVERAL, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (SEVERAL, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz", r"Tkac\, Adam"),
        ("DEFAULT", "CN=a", "CN=a"),
        (" ,, DEFAULT, ,", "CN=a", "CN=a"),
        # Java replaces every match: `.*` matches the whole subject, and then the empty string at its end.
        ("RULE:.*/x/", "CN=a", "xx"),
        ("RULE:^CN=(?<name>.*)$/${name}!/", "CN=a", "a!"),
        (r"RULE:^CN=(.*)$/\$1\/$1/", "CN=a", "$1/a"),
        ("RULE:^CN=(.*)$/$12-$4-$0/", "CN=a", "a2-$4-CN=a"),
        ("RULE:^CN=(.)(.)(.)$/$3$2$1/", "CN=abc", "cba"),
        ("RULE:^CN=(a)|(CN=b)$/<$1>/", "CN=b", "<>"),
        ("RULE:^CN=a$/A/,RULE:^CN=.*$/B/", "CN=ab", "B"),
    ],
)
def test_rules_map_the_subject(rules: str, subject: str, expected: str) -> None:
    assert PrincipalMapper(rules).name_of(subject) == expected


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:^CN=(.*$/$1/",
        "RULE:^CN=.*$/$1/",
        "RULE:^CN=(.*)$/${name}/",
        "RULE:^CN=(.*)$/$/",
    ],
)
def test_rule_that_is_not_valid_is_rejected(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value for configuration ssl.principal.mapping.rules: Invalid"):
        PrincipalMapper(rules)


@pytest.mark.parametrize("rules", ["", "RULE:^OU=(.*)$/$1/", "RULE:CN/x/"])
def test_subject_without_a_matching_rule_is_rejected(rules: str) -> None:
    with pytest.raises(NoPrincipal, match=r"^No rules apply to CN=a, ssl.principal.mapping.rules="):
        PrincipalMapper(rules).name_of("CN=a")
