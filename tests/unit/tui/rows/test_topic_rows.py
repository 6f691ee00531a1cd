"""Rows of topics, and of a topic's tabs."""

import pytest

from yak.client.admin import ConfigValue
from yak.client.consumer import ConsumerRecord
from yak.tui.formatter import Formatter
from yak.tui.rows.groups import TOPIC_GROUP_COLUMNS, topic_group_rows
from yak.tui.rows.topics import (
    COLUMNS,
    CONFIG_COLUMNS,
    TopicFacts,
    TopicTable,
    chosen_config_lines,
    config_rows,
    documentation,
    readable_value,
    tail_rows,
    topic_row,
    topics_title,
)
from yak.tui.state.groups import group_on_topic
from yak.tui.state.picture import Partition, Picture, Rates

FMT = Formatter()


def partition(number=0, leader=1, isr=(1, 2, 3), high=100, topic="orders"):
    ends = dict.fromkeys((1, 2, 3), high)
    return Partition(topic, number, leader, 4, 7, (1, 2, 3), isr, 1, high, ends)


def picture_of(names, partitions=2):
    made = Picture()
    for name in names:
        made.topics[name] = [partition(number, topic=name) for number in range(partitions)]
        made.partitions |= {(name, each.partition): each for each in made.topics[name]}
    made.topics_version += 1
    made.is_loaded = True
    return made


def facts(received_ms=0, starts=(10, 0), sizes=(1024, 2048), **configs):
    return TopicFacts(received_ms, dict(enumerate(starts)), dict(enumerate(sizes)), configs)


def texts(row):
    return dict(zip((column.label for column in COLUMNS), (cell.text for cell in row.cells), strict=True))


def test_a_row_says_how_much_is_in_a_topic_and_what_is_set_for_it():
    rates = Rates(messages_in=840.0, bytes_in=2048.0)
    row = topic_row("orders", [partition(0), partition(1)], rates, facts(**{"retention.ms": "60000"}), FMT)
    assert row.key == "orders"
    assert texts(row) == {
        "TOPIC": "orders", "STATE": "✓ ok", "PARTS": "2", "RF": "3", "RECORDS": "190", "SIZE": "3.0 KiB",
        "IN": "840/s", "OUT": "0/s", "BYTES IN": "2.0 KiB/s", "CONFIGS SET": "retention.ms=60000",
    }  # fmt: skip


def test_figure_that_a_leader_does_not_report_is_displayed_as_a_dash():
    row = texts(
        topic_row("orders", [partition(0), partition(1)], Rates(), facts(starts=(0, None), sizes=(1, None)), FMT)
    )
    assert (row["RECORDS"], row["SIZE"]) == ("–", "–")
    assert facts(sizes=(1, None)).size_bytes is None
    assert facts(starts=(0,)).messages([partition(0, high=None)]) is None


def test_the_worst_of_its_partitions_is_a_topics_state_and_sorts_it():
    def cell(*partitions):
        return topic_row("orders", partitions, Rates(), None, FMT).cells[1]

    well, behind, offline = cell(partition()), cell(partition(), partition(1, isr=(1, 2))), cell(partition(leader=None))
    assert (behind.text, offline.text) == ("▲ 1 under-replicated", "✗ 1 offline")
    assert (well.tone, behind.tone, offline.tone) == ("good", "warn", "bad")
    assert well.order < behind.order < offline.order
    both = cell(partition(leader=None), partition(1, isr=()))
    assert both.text == "✗ 1 offline"
    assert cell(partition(isr=()), partition(1, isr=(1, 2))).text == "✗ 1 under min ISR"


def test_internal_topics_are_listed_when_requested():
    picture, table = picture_of(["orders", "__consumer_offsets"]), TopicTable()
    assert [row.key for row in table.rows(picture, FMT, [])] == ["orders"]
    assert [row.key for row in table.rows(picture, FMT, [], with_internal=True)] == ["__consumer_offsets", "orders"]
    assert topics_title(picture, FMT, with_internal=False) == "1 topic, 2 partitions (1 internal: I)"
    assert topics_title(picture, FMT, with_internal=True) == "2 topics, 4 partitions"


def test_of_thousands_of_topics_those_in_sight_are_fresh_and_the_others_in_turns():
    names = [f"topic-{number:04}" for number in range(2_000)]
    picture, table = picture_of(names, partitions=1), TopicTable()
    rows = table.rows(picture, FMT, [])
    assert [row.key for row in rows] == names
    made = [row.key for row in rows if row.cells[2].text == "1"]
    assert made == names[:500]
    rows = table.rows(picture, FMT, names[1_900:1_910])
    assert [row.key for row in rows if row.cells[2].text == "1"] == names[:1_000] + names[1_900:1_910]
    for _ in range(3):
        rows = table.rows(picture, FMT, [])
    assert all(row.cells[2].text == "1" for row in rows)
    picture.topics["topic-0001"][0].isr = (1,)
    assert "at min ISR" in table.rows(picture, FMT, ["topic-0001"])[1].cells[1].text


def test_rows_follow_topics_that_come_and_go():
    picture, table = picture_of(["a", "b"]), TopicTable()
    table.facts["b"] = facts()
    table.rows(picture, FMT, [])
    del picture.topics["b"]
    picture.topics["c"] = [partition(topic="c")]
    picture.topics_version += 1
    assert [row.key for row in table.rows(picture, FMT, [])] == ["a", "c"]
    assert "b" not in table.facts


def test_stale_topics_without_facts_come_first():
    table = TopicTable()
    table.facts = {"a": facts(received_ms=9_000), "b": facts(received_ms=1_000)}
    assert table.stale(["a", "b", "c"], 10_000, 5_000) == ["c", "b"]


def group(lag=9, topic="orders", members=(), name="audit", state="Stable"):
    partitions = (
        []
        if lag is None
        else [
            {"topic": topic, "partition": 0, "lag": lag, "committed": 1_000 - lag},
            {"topic": topic, "partition": 1, "lag": None, "committed": None},
        ]
    )
    return {
        "group": name, "type": "classic", "coordinator": 1, "state": state, "members": list(members),
        "partitions": partitions,
    }  # fmt: skip


def member(topics=None, assignment=()):
    return {"topics": topics, "assignment": [{"topic": each, "partition": 0} for each in assignment]}


def test_a_group_counts_when_it_committed_or_reads_the_topic():
    assert group_on_topic("orders", group(topic="payments"), None, 0) is None
    assert group_on_topic("orders", group(lag=None), None, 0) is None
    found = group_on_topic(
        "orders", group(members=[member(["orders"]), member(None, ["orders"]), member(["payments"])]), None, 0
    )
    assert (found.members, found.lag, len(found.said["partitions"])) == (2, 9, 2)
    waiting = group_on_topic("orders", group(lag=None, members=[member(["orders"])]), None, 0)
    assert (waiting.members, waiting.lag) == (1, None)


def test_a_group_that_catches_up_says_when_it_will_be_there():
    known = None
    for second, lag in ((0, 1_000), (3, 900), (6, 800)):
        known = group_on_topic("orders", group(lag), known, second * 1_000)
    (row,) = topic_group_rows([known], FMT, 6_000)
    found = dict(zip((column.label for column in TOPIC_GROUP_COLUMNS), (cell.text for cell in row.cells), strict=True))
    assert (found["GROUP"], found["STATE"], found["LAG"], found["PARTITIONS"]) == ("audit", "● Stable", "800", "2")
    assert found["ETA"] == "24.0 s"


def received(partition, offset, timestamp_ms, key, value):
    return ConsumerRecord("orders", partition, offset, timestamp_ms, "CreateTime", key, value, [], None)


def test_tail_rows_are_newest_first():
    messages = [
        received(0, 4, 1_000, b"k", '{"total":12,"cur":"€"}'.encode()),
        received(1, 7, 3_000, None, b"plain"),
        received(1, 6, 2_000, b"\x00\xff", bytes(range(200))),
        received(0, 3, -1, None, None),
    ]
    rows = tail_rows(messages, FMT, 0, 10)
    assert [row.key for row in rows] == ["1@7", "1@6", "0@4", "0@3"]
    assert rows[0].cells[3].text == "plain"
    assert rows[1].cells[3].text.startswith("⟨hex⟩ 00 01 02")
    assert rows[1].cells[3].text.endswith("…")
    assert rows[1].cells[2].text == "⟨hex⟩ 00 ff"
    assert rows[2].cells[3].text == '{"total":12,"cur":"€"}'
    assert rows[3].cells[3].text == "null"
    assert len(tail_rows(messages, FMT, 0, 2)) == 2


def config(name, value, source="default"):
    return ConfigValue(name, value, source, source == "default", False, False)


def test_configs_set_for_the_topic_are_listed_first():
    rows = config_rows([config("flush.ms", "1"), config("retention.ms", "60000", "topic")], FMT)
    assert [row.key for row in rows] == ["retention.ms", "flush.ms"]
    found = dict(zip((column.label for column in CONFIG_COLUMNS), (cell.text for cell in rows[0].cells), strict=True))
    assert (found["VALUE"], found["FROM"], found["DEFAULT"]) == ("60000 (1 min)", "topic", "604800000 (7 d)")
    assert found["DESCRIPTION"] == documentation("retention.ms") != ""


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("flush.ms", str(2**63 - 1), "never"),
        ("flush.messages", str(2**63 - 1), "no limit"),
        ("retention.bytes", "-1", "-1 (no limit)"),
        ("max.message.bytes", "1048588", "1048588 (1.0 MiB)"),
        ("cleanup.policy", "delete", "delete"),
        ("min.compaction.lag.ms", "0", "0"),
        ("leader.replication.throttled.replicas", "", "–"),
        ("unknown", None, "–"),
    ],
)
def test_values_with_their_meaning(name, value, text):
    assert readable_value(name, value, FMT) == text


def test_a_config_that_we_do_not_know_says_so():
    lines = chosen_config_lines(config("of.another.version", "1"), FMT)
    assert "unknown to this version" in lines[1][0].text


def test_topic_whose_configs_the_user_may_not_describe_has_its_sizes_all_the_same():
    row = {"partition": 0, "log_start_offset": 3, "size_bytes": 10}
    found = TopicFacts.of({"partitions": [row], "configs": None}, 5)
    assert (found.log_starts, found.size_bytes, found.configs) == ({0: 3}, 10, {})
