"""Fault rules as tests write them: parsed, printed, or refused with the closest name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.broker.apis import NAMES
from yak.errors import ErrorCode, UsageError
from yak.faults.rule import DELAY_MS_MAX, FaultKind, FaultRule, parse_rule

ID = {"id": "r1"}
ERROR = ID | {"fault": "inject_error", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"}

NARROWED = st.fixed_dictionaries(
    {
        "client_id": st.none() | st.sampled_from(["a", "app-*"]),
        "times": st.none() | st.integers(1, 9),
        "on_call": st.none() | st.integers(1, 9),
    }
)
TOPICAL = st.sampled_from([{}, {"topic": "t"}, {"topic": "t", "partition": 3}])
RULES = st.one_of(
    st.builds(
        lambda *parts: ERROR | {name: value for part in parts for name, value in part.items()},
        NARROWED,
        TOPICAL,
        st.fixed_dictionaries({"after": st.booleans(), "api": st.sampled_from(["Produce", "Fetch", "OffsetCommit"])}),
    ),
    st.builds(lambda more: ID | {"fault": "delay_on", "api": "JoinGroup", "delay_ms": 5} | more, NARROWED),
    st.builds(lambda more: ID | {"fault": "blackhole_client"} | more | {"client_id": "x"}, NARROWED),
    st.just(ID | {"fault": "lag_replica", "topic": "t", "partition": 0, "broker": 2}),
    st.just(ID | {"fault": "lag_replica", "topic": "t", "partition": 0, "broker": 2, "delay_ms": 5}),
    st.just(ID | {"fault": "freeze_isr", "topic": "t"}),
)


@given(RULES)
def test_rule_is_printed_as_it_is_given(fields):
    rule = parse_rule(fields, NAMES)
    printed = rule.as_json()
    assert parse_rule(printed, NAMES) == rule
    given_fields = {name: value for name, value in fields.items() if value not in (None, False)}
    if given_fields.get("on_call") == 1:
        del given_fields["on_call"]
    assert given_fields.items() <= printed.items()


@pytest.mark.parametrize("api", ["Produce", "PRODUCE", "produce", "pro-duce"])
@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "not_leader_or_follower"])
def test_api_and_error_are_found_in_every_spelling(api, error):
    rule = parse_rule(ERROR | {"api": api, "error": error, "fault": "inject-error"}, NAMES)
    assert (rule.api_key, rule.api, rule.error_code) == (0, "Produce", ErrorCode.not_leader_or_follower)


def test_call_without_times_is_that_call_alone():
    rule = parse_rule(ERROR | {"on_call": 3}, NAMES)
    assert [rule.fires_on(call) for call in range(1, 6)] == [False, False, True, False, False]
    assert all(parse_rule(ERROR, NAMES).fires_on(call) for call in range(1, 6))


@pytest.mark.parametrize(
    ("fields", "message", "why"),
    [
        ({}, "needs an id", ""),
        (ID, "fault is missing", "inject_error, disconnect_on"),
        (ID | {"fault": "inject_eror"}, "no fault", "inject_error"),
        (ERROR | {"api": "Prodce"}, 'no api "Prodce"', "Produce"),
        (ERROR | {"api": "xyzzy"}, 'no api "xyzzy"', "Kafka's"),
        (ERROR | {"error": "NOT_LEADER"}, 'no error "NOT_LEADER"', "NOT_LEADER_OR_FOLLOWER"),
        (ERROR | {"error": "NONE"}, 'no error "NONE"', ""),
        (ERROR | {"error": None}, "needs error", "api, error"),
        (ERROR | {"delay_ms": 3}, "inject_error takes no delay_ms", "after"),
        (ERROR | {"tpoic": "t"}, "no field 'tpoic'", "topic"),
        (ERROR | {"partition": 0}, "partition needs topic", ""),
        (ERROR | {"topic": ""}, "topic is ''", "1 to 249"),
        (ERROR | {"client_id": "a\nb"}, "client_id is 'a\\nb'", ""),
        (ERROR | {"topic": 5}, "topic is 5", "text"),
        (ERROR | {"times": 0}, "times is 0", "1 to"),
        (ERROR | {"times": True}, "times is True", "number"),
        (ERROR | {"after": "yes"}, "after is 'yes'", "true or false"),
        (ERROR | {"api": "Heartbeat", "topic": "t"}, "Heartbeat has no result for a topic", "leave topic out"),
        (ERROR | {"api": "CreateTopics", "topic": "t", "partition": 1}, "no result for a partition", "each topic"),
        (ID | {"fault": "delay_on", "api": "Fetch", "delay_ms": DELAY_MS_MAX + 1}, "delay_ms is", "3600000"),
        (ID | {"fault": "blackhole_client"}, "blackhole_client needs client_id", ""),
        (ID | {"fault": "lag_replica", "topic": "t", "partition": 0}, "lag_replica needs broker", ""),
        (ID | {"fault": "freeze_isr", "topic": "t", "client_id": "c"}, "freeze_isr takes no client_id", ""),
    ],
)
def test_wrong_rule_is_refused_with_the_reason(fields, message, why):
    with pytest.raises(UsageError) as caught:
        parse_rule(fields, NAMES)
    assert caught.value.code == "bad-fault"
    assert message in caught.value.message
    assert why in caught.value.why


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3)
FIELDS = st.sampled_from(
    ["id", "fault", "api", "error", "topic", "partition", "times", "after", "broker", "x", "rule_id"]
)


@given(st.dictionaries(FIELDS, JSON | st.sampled_from([*FaultKind, "Produce", "NONE"])))
def test_any_json_is_a_rule_or_refused(fields):
    try:
        rule = parse_rule(fields, NAMES)
    except UsageError:
        return
    assert isinstance(rule, FaultRule)


@pytest.mark.parametrize(
    ("wanted", "given_id", "matches"),
    [
        (None, "a", True),
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "ab", True),
        ("*", None, True),
        ("a", None, False),
    ],
)
def test_client_id_is_exact_or_a_prefix(wanted, given_id, matches):
    assert FaultRule("r", FaultKind.BLACKHOLE_CLIENT, client_id=wanted).is_of_client(given_id) is matches
