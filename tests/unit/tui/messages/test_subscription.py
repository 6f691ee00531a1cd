"""What people write after `:messages`, and in the form of where to begin."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.offset_spec import END, START, Position, parse_edge, parse_range
from yak.client.times import parse_time_ms
from yak.errors import UsageError
from yak.tui.messages.subscription import Choice, Seek, Subscription, filter_parts, parse_seek, parse_topics

NOW_MS = 1_795_176_000_000


def time_of(text):
    return parse_time_ms(text, now_ms=NOW_MS)


def seek(start, stop=""):
    return parse_seek(start, stop, time_of)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", [("orders", ())]),
        ("a,b", [("a", ()), ("b", ())]),
        (" a  b,c ", [("a", ()), ("b", ()), ("c", ())]),
        ("a:0,2", [("a", (0, 2))]),
        ("a:0,2,b:1", [("a", (0, 2)), ("b", (1,))]),
        ("a:0-2,7 b", [("a", (0, 1, 2, 7)), ("b", ())]),
        ("7,a", [("7", ()), ("a", ())]),
        ("a:0 a:1", [("a", (0, 1))]),
        ("a:", [("a", ())]),
    ],
)
def test_topics_with_their_partitions(text, expected):
    assert parse_topics(text) == tuple(Choice(name, numbers) for name, numbers in expected)


@pytest.mark.parametrize("text", ["", " , ", ":0", "a:x", "a:2-1", "a:0-999999999"])
def test_invalid_list_of_topics_is_refused(text):
    with pytest.raises(UsageError) as caught:
        parse_topics(text)
    assert caught.value.code == "bad-topics"


@given(
    st.lists(
        st.builds(
            Choice,
            st.from_regex(r"[a-z][a-z0-9._-]{0,8}", fullmatch=True),
            st.frozensets(st.integers(0, 50), max_size=4).map(lambda numbers: tuple(sorted(numbers))),
        ),
        min_size=1,
        unique_by=lambda choice: choice.topic,
    )
)
def test_a_title_is_read_as_what_it_is_of(choices):
    assert parse_topics(Subscription(tuple(choices)).title) == tuple(choices)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Seek(END)),
        ("end", Seek(END)),
        ("start", Seek(START)),
        ("last 100", Seek(END, None, 100)),
        ("tail 5", Seek(END, None, 5)),
        ("42", Seek(Position("offset", 42))),
        ("+10", Seek(Position("after_start", 10))),
        ("-10", Seek(Position("before_end", 10))),
        ("10:20", Seek(Position("offset", 10), Position("offset", 20))),
        ("-15m", Seek(Position("time", NOW_MS - 900_000))),
        ("@-15m", Seek(Position("time", NOW_MS - 900_000))),
        ("2026-11-20T12:00:00Z", Seek(Position("time", NOW_MS))),
        ("now", Seek(Position("time", NOW_MS))),
    ],
)
def test_start_position_is_parsed_from_its_text(text, expected):
    assert seek(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("end", END),
        ("20", Position("offset", 20)),
        ("-5m", Position("time", NOW_MS - 300_000)),
        ("@-5m", Position("time", NOW_MS - 300_000)),
        ("-5", Position("before_end", 5)),
    ],
)
def test_end_position_is_parsed_from_its_text(text, expected):
    assert seek("start", text) == Seek(START, expected)


@pytest.mark.parametrize(
    ("start", "stop"),
    [("last 0", ""), ("last 9999999", ""), ("soon", ""), ("", "soon"), ("last 5", "20"), ("1:2:3", "")],
)
def test_invalid_start_or_end_position_is_refused(start, stop):
    with pytest.raises(UsageError):
        seek(start, stop)


@pytest.mark.parametrize(
    ("wanted", "is_tail"),
    [(Seek(), True), (Seek(END, None, 10), True), (Seek(START), False), (Seek(END, END, 10), False)],
)
def test_only_the_end_without_an_end_is_a_tail(wanted, is_tail):
    assert Subscription((Choice("a"),), wanted).is_tail is is_tail
    assert Subscription((Choice("a"),), wanted, group="g").is_tail


@pytest.mark.parametrize(
    ("start", "stop", "arguments"),
    [
        ("end", "", ""),
        ("start", "", "--from-beginning"),
        ("start", "end", "--from-beginning --exit"),
        ("last 7", "", "--tail 7"),
        ("42", "", "--offset 42"),
        ("10:20", "", "--offset 10:20"),
        ("start", "20", "--offset start:20"),
        ("2026-11-20T12:00:00Z", "", "--from 2026-11-20T12:00:00.000Z"),
        ("start", "@2026-11-20T12:00:00Z", "--from-beginning --to 2026-11-20T12:00:00.000Z"),
    ],
)
def test_the_command_that_reads_the_same(start, stop, arguments):
    wanted = Subscription((Choice("orders"),), seek(start, stop))
    assert wanted.command() == f"yak consume orders {arguments}".strip()


def test_offsets_of_a_consume_command_are_parsed_back_to_the_subscribed_range():
    wanted = Subscription((Choice("orders"),), seek("@2026-11-20T12:00:00Z", "20"))
    arguments = shlex.split(wanted.command())
    specs = [word for place, word in enumerate(arguments) if arguments[place - 1] == "--offset"]
    found = parse_range(specs, time_of)
    assert (found.start, found.stop) == (wanted.seek.start, wanted.seek.stop)
    assert parse_edge("2026-11-20T12:00:00Z", time_of) == wanted.seek.start


def test_a_command_names_partitions_group_and_filters():
    wanted = Subscription((Choice("a", (0, 2)), Choice("b", (0, 2))), Seek(START), read_committed=True)
    assert (
        wanted.command("k:u1 && v:.total > 10")
        == "yak consume a b --partitions 0,2 --from-beginning --isolation read_committed --filter k:u1 --filter 'v:.total > 10'"
    )
    assert Subscription((Choice("a"),), group="audit").command() == "yak consume a --group audit --no-commit"


def test_topics_with_different_partitions_need_a_command_each():
    assert Subscription((Choice("a", (0,)), Choice("b"))).command() == "yak consume a --partitions 0; yak consume b"


def test_filter_parts_split_at_and():
    assert filter_parts("k:a && !v:b&&c") == ["k:a", "!v:b&&c"]
    assert filter_parts("  ") == []
