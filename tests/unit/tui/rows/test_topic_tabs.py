import base64

import pytest

from yak.client.admin import ConfigValue
from yak.tui.look import Look
from yak.tui.rows.topic_config import COLUMNS, config_rows, config_words, documentation, in_words
from yak.tui.rows.topic_readers import GROUP_COLUMNS, Message, group_rows, reader_of, tail_rows

LOOK = Look()


def group(lag=9, topic="orders", members=(), name="audit", state="Stable"):
    partitions = (
        []
        if lag is None
        else [{"topic": topic, "partition": 0, "lag": lag}, {"topic": topic, "partition": 1, "lag": None}]
    )
    return {"group": name, "state": state, "members": list(members), "partitions": partitions}


def member(topics=None, assignment=()):
    return {"topics": topics, "assignment": [{"topic": each, "partition": 0} for each in assignment]}


def test_a_group_counts_when_it_committed_or_reads_the_topic():
    assert reader_of("orders", group(topic="payments"), None, 0) is None
    assert reader_of("orders", group(lag=None), None, 0) is None
    found = reader_of(
        "orders", group(members=[member(["orders"]), member(None, ["orders"]), member(["payments"])]), None, 0
    )
    assert (found.members, found.lag, found.partitions) == (2, 9, 2)
    waiting = reader_of("orders", group(lag=None, members=[member(["orders"])]), None, 0)
    assert (waiting.members, waiting.lag) == (1, None)


def test_a_group_that_catches_up_says_when_it_will_be_there():
    known = None
    for second, lag in enumerate((1_000, 900, 800)):
        known = reader_of("orders", group(lag), known, second * 1_000)
    assert known.eta_ms == pytest.approx(8_000)
    (row,) = group_rows([known], LOOK)
    found = dict(zip((column.label for column in GROUP_COLUMNS), (cell.text for cell in row.cells), strict=True))
    assert (found["GROUP"], found["STATE"], found["LAG"], found["ETA"]) == ("audit", "✓ Stable", "800", "8.0 s")
    assert len(found["TREND"]) == 3
    assert reader_of("orders", group(1_200), known, 3_000).eta_ms is None
    assert reader_of("orders", group(0), known, 3_000).eta_ms is None


def test_messages_are_told_newest_first_whatever_is_in_them():
    binary = base64.b64encode(bytes(range(30))).decode()
    messages = [
        Message.of(0, {"offset": 4, "timestamp_ms": 1_000, "key": "k", "payload": {"total": 12, "cur": "€"}}),
        Message.of(1, {"offset": 7, "timestamp_ms": 3_000, "key": None, "payload_text": "plain"}),
        Message.of(1, {"offset": 6, "timestamp_ms": 2_000, "key_base64": "AP8=", "payload_base64": binary}),
        Message.of(0, {"offset": 3, "timestamp_ms": None, "key": None, "payload": None}),
    ]
    rows = tail_rows(messages, LOOK, 0, 10)
    assert [row.key for row in rows] == ["1@7", "1@6", "0@4", "0@3"]
    assert rows[0].cells[3].text == "plain"
    assert rows[1].cells[3].text.startswith("hex 00 01 02")
    assert rows[1].cells[3].text.endswith("and 6 bytes more")
    assert rows[1].cells[2].text == "hex 00 ff"
    assert rows[2].cells[3].text == '{"total":12,"cur":"€"}'
    assert rows[3].cells[3].text == "(no value)"
    assert len(tail_rows(messages, LOOK, 0, 2)) == 2


def config(name, value, source="default"):
    return ConfigValue(name, value, source, source == "default", False, False)


def test_what_is_set_for_the_topic_comes_first():
    rows = config_rows([config("flush.ms", "1"), config("retention.ms", "60000", "topic")], LOOK)
    assert [row.key for row in rows] == ["retention.ms", "flush.ms"]
    found = dict(zip((column.label for column in COLUMNS), (cell.text for cell in rows[0].cells), strict=True))
    assert (found["VALUE"], found["FROM"], found["DEFAULT"]) == ("60000 (1 min)", "topic", "604800000 (7 d)")
    assert found["WHAT IT IS FOR"] == documentation("retention.ms") != ""


@pytest.mark.parametrize(
    ("name", "value", "words"),
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
def test_values_with_their_meaning(name, value, words):
    assert in_words(name, value, LOOK) == words


def test_a_config_that_we_do_not_know_says_so():
    lines = config_words(config("of.another.version", "1"), LOOK)
    assert "does not know it" in lines[1][0].text
