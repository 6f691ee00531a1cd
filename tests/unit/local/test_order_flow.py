"""The workload's records: the same for the same number, keyed, JSON, and known by a header."""

import json

from yak.local.demo.order_flow import HEADER, TOPICS, number_of, order_of


def test_a_record_is_json_with_its_customer_as_key_and_the_same_each_time() -> None:
    for topic in TOPICS:
        key, value = order_of(topic.name, 4711)
        order = json.loads(value)
        assert order["customer"].encode() == key
        assert order["total"] >= 0
        assert (key, value) == order_of(topic.name, 4711)
        assert (key, value) != order_of(topic.name, 4712)


def test_many_customers_buy() -> None:
    assert len({order_of("orders", number)[0] for number in range(2_000)}) > 150


def test_the_number_is_in_the_header_and_other_records_have_none() -> None:
    assert number_of([("other", b"1"), (HEADER, b"17")]) == 17
    assert number_of([(HEADER, b"x")]) is None
    assert number_of([(HEADER, None)]) is None
    assert number_of([]) is None
    assert number_of(None) is None
