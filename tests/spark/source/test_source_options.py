"""The options of `format("yak")`: what Spark's Kafka source takes, and one clear line for what it does not."""

import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from yak.ids import TopicPartition
from yak.spark.source.client_settings import for_librdkafka
from yak.spark.source.errors import SourceError
from yak.spark.source.options import EARLIEST, KNOWN, LATEST, Bound, check_batch, check_stream, read_options
from yak.spark.source.topics import Topics
from yak.spark.source.write import write_options

HERE = {"bootstrap": "localhost:9092", "subscribe": "orders"}


def test_names_are_compared_without_case_and_spark_lowers_them() -> None:
    options = read_options(
        {
            "KAFKA.Bootstrap.Servers": "a:1,b:2",
            "subscribepattern": "or.*",
            "MINPARTITIONS": "8",
            "maxoffsetspertrigger": "100",
            "includeheaders": "TRUE",
            "failOnDataLoss": "false",
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.min.bytes": "7",
        }
    )
    assert (options.bootstrap, options.subscription.pattern) == ("a:1,b:2", "or.*")
    assert (options.min_partitions, options.max_offsets_per_trigger) == (8, 100)
    assert (options.include_headers, options.fail_on_data_loss) == (True, False)
    assert options.isolation == "read_committed"
    assert options.client_settings == {"fetch.min.bytes": "7"}


def test_partitions_and_offsets_are_read_from_sparks_json() -> None:
    options = read_options(
        {
            "bootstrap": "a:1",
            "assign": '{"orders":[1,0],"payments":[2]}',
            "startingOffsets": '{"orders":{"0":23,"1":-2},"payments":{"2":-1}}',
            "endingOffsets": "latest",
        }
    )
    assert options.subscription.partitions == (
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
        TopicPartition("payments", 2),
    )
    assert options.starting is not None
    assert options.starting.offsets == {
        TopicPartition("orders", 0): 23,
        TopicPartition("orders", 1): -2,
        TopicPartition("payments", 2): -1,
    }
    assert options.ending == LATEST


def test_a_timestamp_counts_before_offsets() -> None:
    options = read_options(HERE | {"startingOffsets": "earliest", "startingTimestamp": "1700000000000"})
    assert options.starting == Bound("time", time_ms=1_700_000_000_000)
    assert read_options(HERE | {"startingOffsets": "Earliest"}).starting == EARLIEST


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"assign": '{"orders":[0]}'}, "exactly one way"),
        ({"subscribe": " , "}, "names no topic"),
        ({"startingOffset": "earliest"}, "the closest is startingOffsets"),
        ({"startingOffsets": "eearliest"}, "it is earliest, latest, or JSON"),
        ({"startingOffsets": '{"orders":{"0":'}, "it is no JSON"),
        ({"startingOffsets": '{"orders":[1]}'}, "each partition is named"),
        ({"startingOffsets": '{"orders":{"0":true}}'}, "each partition is named"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "below 0 there are only"),
        ({"startingOffsets": '{"orders":{"0":9223372036854775808}}'}, "no offset or partition"),
        ({"startingTimestamp": "yesterday"}, "whole number"),
        ({"minPartitions": "0"}, "above 0"),
        ({"maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "11"}, "higher than maxOffsetsPerTrigger"),
        ({"failOnDataLoss": "no"}, "true or false"),
        ({"isolation": "dirty"}, "read_uncommitted, read_committed"),
        ({"isolation": "read_committed", "kafka.isolation.level": "read_uncommitted"}, "kafka.isolation.level says"),
        ({"bootstrap": "a:1", "kafka.bootstrap.servers": "b:1"}, "one of the two"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "checkpoint"),
        ({"client": "java"}, "columnar, librdkafka"),
        ({"maxTriggerDelay": "soon"}, "duration"),
    ],
)
def test_invalid_source_options_are_reported_in_one_line(more: dict[str, str], message: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_options(HERE | more)
    text = str(caught.value)
    assert text.startswith("[spark-option] ")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize("missing", ["bootstrap", "subscribe"])
def test_missing_option_is_named(missing: str) -> None:
    with pytest.raises(SourceError, match=r"\[spark-option\] no (cluster|topic) is named.*Try: "):
        read_options({name: value for name, value in HERE.items() if name != missing})


@pytest.mark.parametrize("name", ["bootstrap", "kafka.bootstrap.servers"])
def test_bootstrap_without_a_port_is_given_kafkas_and_one_that_is_no_address_is_refused(name: str) -> None:
    given = "one, two:1,SSL://three:2, PLAINTEXT://[::1]:3,"
    assert read_options({name: given, "subscribe": "orders"}).bootstrap == "one:9092,two:1,three:2,[::1]:3"
    with pytest.raises(SourceError, match=rf'\[spark-option\] option {name}="one:b" .*"b" in one:b is not a port'):
        read_options({name: "one:b", "subscribe": "orders"})


def test_pattern_is_found_anywhere_in_a_name_and_in_no_internal_topic() -> None:
    options = read_options({"bootstrap": "a:1", "subscribePattern": "ord|^__"})
    names = dict.fromkeys(("orders", "new-orders", "payments", "__own", "__consumer_offsets"), frozenset({0}))
    assert [each.topic for each in Topics(options)._matching(names)] == ["__own", "new-orders", "orders"]
    assert options.subscription.covers("new-orders")
    assert not options.subscription.covers("payments")


def test_unknown_option_unlike_ours_is_ignored() -> None:
    assert read_options(HERE | {"mergeSchema": "true"}).subscription.topics == ("orders",)


@pytest.mark.parametrize(
    "more",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"orders":{"0":-1}}'},
        {"endingOffsets": "earliest"},
        {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":4}}'},
        {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"1":9}}'},
    ],
)
def test_a_batch_has_bounds_that_leave_something_to_read(more: dict[str, str]) -> None:
    with pytest.raises(SourceError):
        check_batch(read_options(HERE | more))


def test_a_stream_has_no_end() -> None:
    with pytest.raises(SourceError, match="availableNow"):
        check_stream(read_options(HERE | {"endingTimestamp": "5"}))


def test_an_error_is_the_same_after_it_was_pickled() -> None:
    error = SourceError("spark-option", "what", why="why", try_=("this", "that"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.exit_code) == ("[spark-option] what: why. Try: this; or that", 2)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"fetch.max.wait.ms": "5"}, {"fetch.wait.max.ms": "5"}),
        ({"ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM"}, {"ssl.ca.location": "ca.pem"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"max.poll.records": "5"}, {}),
        (
            {"sasl.jaas.config": 'org.apache…PlainLoginModule required username="a" password="b\\"c";'},
            {"sasl.username": "a", "sasl.password": 'b"c'},
        ),
    ],
)
def test_javas_settings_have_librdkafkas_names(settings: dict[str, str], wanted: dict[str, str]) -> None:
    assert for_librdkafka(settings) == wanted


def test_a_java_store_is_refused_with_what_to_give_instead() -> None:
    with pytest.raises(SourceError, match="PEM"):
        for_librdkafka({"ssl.truststore.location": "trust.jks"})


def test_a_topic_cannot_be_overwritten() -> None:
    with pytest.raises(SourceError, match="append"):
        write_options(HERE, True)
    written: Any = write_options(HERE | {"topic": " out ", "kafka.linger.ms": "5"}, False)
    assert (written.topic, written.client_settings) == ("out", {"linger.ms": "5"})


def test_the_reference_has_every_option() -> None:
    page = (Path(__file__).parents[3] / "docs/spark-source.md").read_text(encoding="utf-8")
    assert [name for name in KNOWN if f"`{name}`" not in page] == []
