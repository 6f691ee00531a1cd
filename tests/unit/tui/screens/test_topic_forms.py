import pytest

from yak.client.admin import ConfigValue
from yak.errors import UsageError
from yak.tui.screens import topics


def filled(**more):
    values = {field.name: field.value for field in topics.create_fields(3)}
    return values | {"name": "orders"} | {name.replace("__", "."): value for name, value in more.items()}


def refusal(call, *arguments):
    with pytest.raises(UsageError) as refused:
        call(*arguments)
    return refused.value.code, f"{refused.value.message} {refused.value.why}"


def test_a_new_topic_and_the_command_that_makes_it():
    body = topics.create_body(filled(retention__ms="60000", others="flush.messages=1 'segment.bytes=1048576'"))
    assert body == {
        "name": "orders", "partitions": 3, "replication_factor": 3,
        "configs": {"retention.ms": "60000", "flush.messages": "1", "segment.bytes": "1048576"},
    }  # fmt: skip
    assert topics.create_command(body) == (
        "yak topics create orders -p 3 -r 3 -c retention.ms=60000 -c flush.messages=1 -c segment.bytes=1048576"
    )
    assert topics.create_body(filled(partitions="", replication_factor="")) == {"name": "orders"}
    assert topics.create_fields(1)[2].value == "1"


def test_errors_in_a_new_topic_are_reported_before_the_request_is_sent():
    assert refusal(topics.create_body, filled(name="a b"))[0] == "bad-topic-name"
    assert refusal(topics.create_body, filled(name=".."))[0] == "bad-topic-name"
    assert refusal(topics.create_body, filled(name="x" * 250))[0] == "bad-topic-name"
    assert refusal(topics.create_body, filled(partitions="0"))[0] == "bad-number"
    assert refusal(topics.create_body, filled(partitions="٣"))[0] == "bad-number"
    assert refusal(topics.create_body, filled(others="nosuch=1")) == (
        "bad-config",
        'there is no topic config "nosuch" ',
    )
    assert refusal(topics.create_body, filled(others="flush.messages"))[0] == "bad-config"
    assert refusal(topics.create_body, filled(others="'open"))[0] == "bad-config"
    assert "retention.ms" in refusal(topics.create_body, filled(retention__ms="soon"))[1]


def config(name, value, source="default"):
    return ConfigValue(name, value, source, source == "default", False, False)


CONFIGS = {
    each.name: each
    for each in (
        config("retention.ms", "60000", "topic"),
        config("flush.messages", "1", "topic"),
        config("min.insync.replicas", "2", "static"),
        config("retention.bytes", "-1"),
        config("max.message.bytes", "1048588"),
    )
}


def altered(**more):
    values = {field.name: field.value for field in topics.alter_fields(3, CONFIGS)}
    return topics.alter_change(
        "orders", 3, CONFIGS, values | {name.replace("__", "."): value for name, value in more.items()}
    )


def test_the_form_of_a_topic_has_what_is_set_and_hints_at_the_rest():
    fields = {field.name: field for field in topics.alter_fields(3, CONFIGS)}
    assert (fields["partitions"].value, fields["retention.ms"].value, fields["others"].value) == (
        "3",
        "60000",
        "flush.messages=1",
    )
    assert (fields["min.insync.replicas"].value, fields["min.insync.replicas"].hint) == ("", "2 (static)")


def test_alter_change_has_only_the_differences():
    change = altered(partitions="6", retention__ms="120000", others="segment.bytes=1048576")
    assert change.command() == (
        "yak topics alter orders -p 6 -c retention.ms=120000 -c segment.bytes=1048576 --delete-config flush.messages"
    )
    diff = change.diff(3, CONFIGS)
    assert diff[0].split() == ["partitions", "3", "->", "6"]
    assert diff[1].split() == ["retention.ms", "60000", "->", "120000"]
    assert diff[3].split()[:3] == ["flush.messages", "1", "->"]
    assert "cannot be taken away" in diff[-1]
    assert altered(retention__ms="").deletions == ("retention.ms",)
    assert altered(min__insync__replicas="1").diff(3, CONFIGS) == ["min.insync.replicas   2 (static) -> 1"]


def test_a_change_that_is_none_or_cannot_be_is_refused():
    assert refusal(altered)[0] == "nothing-to-change"
    with pytest.raises(UsageError, match="has 3 partitions"):
        altered(partitions="2")
    with pytest.raises(UsageError, match="nothing for retention"):
        altered(retention__ms="x")


def test_topic_config_is_set_or_reverts_to_the_cluster_value():
    own = CONFIGS["retention.ms"]
    assert topics.config_change("orders", own, "5000").configs == {"retention.ms": "5000"}
    assert topics.config_change("orders", own, "").deletions == ("retention.ms",)
    assert refusal(topics.config_change, "orders", own, "60000")[0] == "nothing-to-change"
    assert refusal(topics.config_change, "orders", CONFIGS["retention.bytes"], "")[0] == "nothing-to-change"
    # the same as the cluster's, but now the topic's own
    assert topics.config_change("orders", CONFIGS["retention.bytes"], "-1").configs == {"retention.bytes": "-1"}


def test_only_replicas_in_sync_may_take_a_leadership():
    assert topics.move_choices((3, 1, 2), (1, 2), 1) == [2]
    assert topics.move_choices((3, 1, 2), (3, 1, 2), 1) == [3, 2]
    assert topics.move_choices((1,), (1,), 1) == []
