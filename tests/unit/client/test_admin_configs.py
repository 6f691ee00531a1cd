"""Changes that a broker does not make, or does not confirm."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from yak.client.admin import Admin
from yak.client.metadata import ClusterMetadata
from yak.client.produce import require_target
from yak.errors import YakError
from yak.ids import TopicPartition


class Client:
    def __init__(self, code, message="Invalid value x for config log.retention.ms"):
        self.refused = Future()
        self.refused.set_exception(KafkaException(KafkaError(code, message)))

    def incremental_alter_configs(self, resources, **_options):
        return dict.fromkeys(resources, self.refused)

    def create_topics(self, new, **_options):
        return {each.topic: self.refused for each in new}

    def delete_topics(self, names, **_options):
        return dict.fromkeys(names, self.refused)

    def describe_configs(self, resources, **_options):
        self.described = [*getattr(self, "described", ()), len(resources)]
        return dict.fromkeys(resources, self.refused)

    def create_partitions(self, new, **_options):
        return {each.topic: self.refused for each in new}

    def delete_records(self, wanted, **_options):
        return dict.fromkeys(wanted, self.refused)


@pytest.mark.parametrize("code", [KafkaError.INVALID_REQUEST, KafkaError.INVALID_CONFIG])
def test_a_config_that_a_broker_refuses_is_a_bad_config_for_either_error_code(code):
    # a broker answers INVALID_REQUEST for a bad value of its own configs, and INVALID_CONFIG for one of a topic
    admin = Admin.__new__(Admin)
    admin.timeout_s, admin.client = 5.0, Client(code)
    with pytest.raises(YakError, match='configs of broker "1" were not changed') as refused:
        admin.alter_configs("broker", "1", {"log.retention.ms": "x"})
    assert (refused.value.code, refused.value.try_) == ("bad-config", ("yak help bad-config",))
    assert "log.retention.ms" in refused.value.why


def an_admin(*answer):
    admin = Admin.__new__(Admin)
    admin.timeout_s, admin.client = 5.0, Client(*answer)
    return admin


CHANGES = [
    (lambda admin: admin.create_topic("late"), 'topic "late" was', "created", "topics describe late"),
    (lambda admin: admin.delete_topic("late"), 'topic "late" was', "deleted", "topics describe late"),
    (lambda admin: admin.add_partitions("late", 6), 'topic "late" was', "grown to 6 partitions", "topics describe late"),
    (
        lambda admin: admin.alter_configs("broker", "1", {"a": "b"}),
        'configs of broker "1" were', "changed", "brokers describe 1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "subject", "done", "check"), CHANGES)
@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT])
def test_change_without_an_answer_has_an_unknown_outcome(change, subject, done, check, code):
    with pytest.raises(YakError) as failed:
        change(an_admin(code, "too late"))
    assert failed.value.message == str(failed.value) == f"unknown: {subject} {done} or not"
    assert failed.value.try_[0].split("  ")[0] == f"yak {check}"


@pytest.mark.parametrize(("change", "subject", "done", "_check"), CHANGES)
def test_change_that_a_broker_says_it_did_not_make_has_a_known_outcome(change, subject, done, _check):
    with pytest.raises(YakError) as failed:
        change(
            an_admin(KafkaError.REQUEST_TIMED_OUT, "Metadata cannot be changed now. Nothing was changed; try again.")
        )
    assert failed.value.message == f"{subject} not {done}"


def test_validation_without_an_answer_changed_nothing():
    with pytest.raises(YakError, match='topic "late" was not created'):
        an_admin(KafkaError._TIMED_OUT, "too late").create_topic("late", validate_only=True)


def test_trim_without_an_answer_has_an_unknown_outcome():
    partition = TopicPartition("late", 0)
    failure = an_admin(KafkaError._TIMED_OUT, "too late").delete_records({partition: 1})[partition]
    assert failure.message == "unknown: late-0 was trimmed or not"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("orders:3", "yak topics create orders -p 3"),
        ("orders:0", "yak topics create orders"),
        ("my orders/new", "yak topics create my-orders-new"),
        ("a.b", "yak topics list"),  # valid, but it collides with a_b
        (":3", "yak topics list"),
    ],
)
def test_an_invalid_topic_name_is_answered_with_the_command_for_a_valid_one(name, advice):
    with pytest.raises(YakError) as refused:
        an_admin(KafkaError.TOPIC_EXCEPTION, "Topic name is invalid").create_topic(name)
    assert (refused.value.code, refused.value.try_) == ("bad-topic-name", (advice,))


def test_configs_of_many_topics_are_requested_a_thousand_topics_at_a_time():
    admin = an_admin(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    names = [f"t{number}" for number in range(12_500)]
    assert admin.min_isrs(names) == dict.fromkeys(names, 1)
    assert admin.client.described == [1_000] * 12 + [500]


def test_deletion_of_an_internal_topic_names_the_users_that_may_delete_it() -> None:
    with pytest.raises(YakError) as refused:
        an_admin(KafkaError.TOPIC_AUTHORIZATION_FAILED).delete_topic("__consumer_offsets")
    assert refused.value.try_ == ("log in as one of super.users: only they may delete internal topics",)


@pytest.mark.parametrize(
    ("topic", "creation"),
    [("bad topic", "yak topics create bad-topic"), ("orders:3", "yak topics create orders -p 3"),
     ("late", "yak topics create late")],
)  # fmt: skip
def test_produce_to_an_unknown_topic_advises_a_creation_that_the_broker_takes(topic: str, creation: str) -> None:
    admin = an_admin(0)
    admin.metadata = lambda: ClusterMetadata("c", 1, {}, {})
    with pytest.raises(YakError) as unknown:
        require_target(admin, topic)
    assert unknown.value.try_ == ("yak topics list", creation)
