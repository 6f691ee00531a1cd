"""Matching and counting: which rules act on which request, compared with a plain model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import UsageError
from yak.faults.rule import FaultKind, FaultRule
from yak.faults.rules import RULES_MAX, FaultRules

TOPICS = st.none() | st.sampled_from(["t", "u"])
RULES = st.builds(
    FaultRule,
    rule_id=st.just(""),
    fault=st.sampled_from([FaultKind.INJECT_ERROR, FaultKind.DELAY_ON, FaultKind.FREEZE_ISR]),
    api_key=st.none() | st.sampled_from([0, 1]),
    client_id=st.none() | st.sampled_from(["a", "b*"]),
    topic=TOPICS,
    times=st.none() | st.integers(1, 3),
    on_call=st.integers(1, 3),
)
REQUESTS = st.tuples(
    st.sampled_from([0, 1]),
    st.sampled_from([None, "a", "b", "b1"]),
    st.lists(st.tuples(TOPICS, st.none() | st.integers(0, 2)), max_size=3),
)


def matches(rule: FaultRule, api_key: int, client_id: str | None, named: list[tuple[str | None, int | None]]) -> bool:
    topics = {topic for topic, _index in named}
    return (
        rule.fault is not FaultKind.FREEZE_ISR
        and rule.api_key in (None, api_key)
        and (
            rule.client_id is None
            or rule.client_id == client_id
            or (rule.client_id, client_id) in [("b*", "b"), ("b*", "b1")]
        )
        and (rule.topic is None or rule.topic in topics or None in topics)
    )


@given(st.lists(RULES, max_size=4), st.lists(REQUESTS, max_size=12))
def test_each_rule_fires_on_its_calls_and_counts_all_that_match(wanted, requests):
    rules, calls, hits = FaultRules(), [0] * len(wanted), [0] * len(wanted)
    numbered = []
    for number, rule in enumerate(wanted):
        numbered.append(FaultRule(str(number), *[getattr(rule, name) for name in FaultRule.__slots__[1:]]))
        rules.add(numbered[-1])
    for api_key, client_id, named in requests:
        expected = []
        for number, rule in enumerate(numbered):
            if matches(rule, api_key, client_id, named):
                calls[number] += 1
                last = None if rule.times is None else rule.on_call + rule.times - 1
                if rule.on_call <= calls[number] and (last is None or calls[number] <= last):
                    hits[number] += 1
                    expected.append(rule)
        assert rules.fired(api_key, client_id, lambda named=named: named) == expected
    counts = [(each.get("calls", 0), each.get("hits", 0)) for each in rules.as_json()]
    assert counts == list(zip(calls, hits, strict=True))


def test_partition_is_matched_by_its_own_row_or_the_whole_topic():
    rules = FaultRules()
    rules.add(FaultRule("r", FaultKind.INJECT_ERROR, topic="t", partition=1))
    fired = [
        bool(rules.fired(0, None, lambda row=row: [row])) for row in [("t", 0), ("t", 1), ("t", None), (None, None)]
    ]
    assert fired == [False, True, True, True]


def test_rules_of_replicas_name_partitions_and_brokers():
    rules = FaultRules()
    assert not rules
    rules.add(FaultRule("lag", FaultKind.LAG_REPLICA, topic="t", partition=1, broker=2))
    rules.add(FaultRule("ice", FaultKind.FREEZE_ISR, topic="t"))
    assert rules
    assert [rules.stops_fetches(*where) for where in [("t", 1, 2), ("t", 1, 3), ("t", 0, 2), ("u", 1, 2)]] == [
        True,
        *[False] * 3,
    ]
    assert [rules.freezes(*where) for where in [("t", 0), ("t", 7), ("u", 0)]] == [True, True, False]
    assert [each.get("calls") for each in rules.as_json()] == [None, None]
    assert [rule.rule_id for rule in rules.remove("lag")] == ["lag"]
    assert not rules.stops_fetches("t", 1, 2)
    assert rules.remove("lag") == []
    assert len(rules.remove(None)) == 1
    assert not rules.freezes("t", 0)


def test_ids_are_unique_and_rules_bounded():
    rules = FaultRules()
    for number in range(RULES_MAX):
        rules.add(FaultRule(str(number), FaultKind.FREEZE_ISR, topic="t"))
    with pytest.raises(UsageError, match="there are 1000 faults"):
        rules.add(FaultRule("more", FaultKind.FREEZE_ISR, topic="t"))
    rules.remove("5")
    with pytest.raises(UsageError, match="there is a fault 7"):
        rules.add(FaultRule("7", FaultKind.FREEZE_ISR, topic="t"))
