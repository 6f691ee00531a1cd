"""`--seed-topic` names a topic, and maybe its partitions."""

import pytest

from tests.errors import raises_error
from yak.errors import UsageError
from yak.local.seed_topics import SeedTopic, parse_seed_topic


@pytest.mark.parametrize(("text", "topic"), [("orders", SeedTopic("orders", 1)), ("orders:3", SeedTopic("orders", 3))])
def test_a_name_and_a_count_are_read(text: str, topic: SeedTopic) -> None:
    assert parse_seed_topic(text) == topic


@pytest.mark.parametrize("text", ["", ":3", "orders:", "orders:0", "orders:-1", "orders:x", "a:b:3"])
def test_anything_else_is_a_usage_error(text: str) -> None:
    with raises_error(UsageError, "bad-seed-topic"):
        parse_seed_topic(text)


@pytest.mark.parametrize("text", ["a b:3", "..", "x" * 250, "a/b"])
def test_a_seed_topic_with_a_name_that_no_broker_takes_is_refused(text: str) -> None:
    with raises_error(UsageError, "bad-topic-name"):
        parse_seed_topic(text)
