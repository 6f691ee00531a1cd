import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.security.principal_mapping import NoMatchingRule, PrincipalMapping

# The rules and names of KIP-371 and of Kafka's documentation of ssl.principal.mapping.rules.
RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("O=Yak,CN=Alice.A", "alice.a"),
        ("O=Yak,OU=x", "O=Yak,OU=x"),
    ],
)
def test_first_rule_that_matches_gives_the_name(name: str, user: str) -> None:
    assert PrincipalMapping.parse(RULES).name_of(name) == user


@pytest.mark.parametrize(
    ("rule", "name", "user"),
    [
        ("RULE:^CN=(.*)$/$1/U", "CN=alice", "ALICE"),
        ("RULE:^CN=(.*)$/user-$1-$2/", "CN=a", "user-a-$2"),
        ("RULE:^CN=(?<who>.*)$/${who}/", "CN=a", "a"),
        ("RULE:^CN=(a)(.*)$/$10/", "CN=abc", "a0"),
        (r"RULE:^CN=(.*)\/(.*)$/$2\/$1/", "CN=a/b", "b/a"),
        (r"RULE:^CN=(.*)$/\$1/", "CN=a", "$1"),
        ("RULE:^(CN=b)?.*$/<$1>/", "CN=a", "<>"),
        ("  DEFAULT  ", "CN=a", "CN=a"),
        ("", "CN=a", "CN=a"),
    ],
)
def test_replacement_follows_javas_rules(rule: str, name: str, user: str) -> None:
    assert PrincipalMapping.parse(rule).name_of(name) == user


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (r"RULE:^CN=(\w+)$/$1/", "CN=\u00e9"),
        (r"RULE:^CN=(\d+)$/$1/", "CN=\u0663"),
        ("RULE:(?i)^CN=(kate)$/$1/L", "CN=\u212aate"),  # the Kelvin sign, whose lower case is k
    ],
)
def test_classes_and_case_of_a_pattern_are_those_of_ascii_as_in_java(rule: str, name: str) -> None:
    with pytest.raises(NoMatchingRule):
        PrincipalMapping.parse(rule).name_of(name)


def test_pattern_has_to_match_the_whole_name() -> None:
    with pytest.raises(NoMatchingRule, match="CN=a,O=b"):
        PrincipalMapping.parse("RULE:CN=a/$0/").name_of("CN=a,O=b")


@pytest.mark.parametrize(
    "text",
    [
        "deny",
        "RULE:^CN=(.*)$",
        "RULE:^CN=(.*)$/$1",
        "RULE:^CN=(.*)$/$1/X",
        "RULE:^CN=($/$1/",
        "DEFAULT,,DEFAULT",
        "DEFAULT RULE:a/b/",
    ],
)
def test_rule_that_is_wrong_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"RULE|expression|neither"):
        PrincipalMapping.parse(text)


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        mapping = PrincipalMapping.parse(text)
    except ValueError:
        return
    assert mapping.rules


@given(st.text(alphabet=st.characters(blacklist_characters="/\\$"), max_size=20), st.text(max_size=40))
def test_replacement_without_references_is_the_name(replacement: str, name: str) -> None:
    assert PrincipalMapping.parse(f"RULE:^(?s:.*)$/{replacement}/").name_of(name) == replacement
