"""Numbers of any length, and of digits that are not ASCII, get a clear error or are read, wherever users type them."""

import pytest

from yak.client.addresses import parse_addresses
from yak.client.filters import parse_path
from yak.client.groups.partition_syntax import _numbers as partitions_of_a_group
from yak.client.numbers import parse_long
from yak.client.offset_spec import parse_range
from yak.client.times import parse_duration_ms, parse_time_ms
from yak.commands.consume import parse_commit_every
from yak.commands.faults import _values as parse_fault
from yak.commands.sim import numbers
from yak.commands.units import parse_size_bytes
from yak.errors import UsageError
from yak.local.seed_topics import parse_seed_topic
from yak.tui.formatter import Formatter
from yak.tui.messages.subscription import parse_seek, parse_topics
from yak.tui.rows.groups import _check as check_reset
from yak.tui.screens.producer import _how_often
from yak.tui.screens.topics import whole_number

ABSURD = ["9" * 19, "9" * 309, "9" * 4_301, "\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT TWO}", "9" * 400 + ".5"]


def time_of(text):
    return parse_time_ms(text, now_ms=0)


READERS = {
    "duration": lambda text: parse_duration_ms(f"{text}s"),
    "duration of parts": lambda text: parse_duration_ms(f"1m{text}ms"),
    "bare duration": lambda text: parse_duration_ms(text, bare_unit="s"),
    "time": time_of,
    "distance": lambda text: time_of(f"-{text}d"),
    "size": parse_size_bytes,
    "size with a unit": lambda text: parse_size_bytes(f"{text}TiB"),
    "offset": lambda text: parse_range([text], time_of),
    "offset at a time": lambda text: parse_range([f"@{text}:{text}"], time_of),
    "filter": lambda text: parse_path(f".a[{text}]", text),
    "commit interval": parse_commit_every,
    "partitions of a group": lambda text: partitions_of_a_group(text, text),
    "range of partitions": lambda text: partitions_of_a_group(f"0-{text}", text),
    "kept simulations": numbers,
    "seed topic": lambda text: parse_seed_topic(f"orders:{text}"),
    "fault": lambda text: parse_fault("delay", ["Produce", text]),
    "TUI: topics": lambda text: parse_topics(f"orders:{text}"),
    "TUI: last": lambda text: parse_seek(f"last {text}", "", time_of),
    "TUI: reset to an offset": lambda text: check_reset("offset", text, Formatter()),
    "TUI: shift": lambda text: check_reset("shift by", f"-{text}", Formatter()),
    "TUI: records": lambda text: _how_often({"count": text, "rate": ""}),
    "TUI: partitions": lambda text: whole_number(text, "partitions"),
}


@pytest.mark.parametrize("text", ABSURD, ids=lambda text: f"{ascii(text)[:8]}-{len(text)}")
@pytest.mark.parametrize("reader", READERS)
def test_absurd_number_is_refused(reader, text):
    with pytest.raises(UsageError):
        READERS[reader](text)


@pytest.mark.parametrize("text", ABSURD)
def test_absurd_port_is_refused(text):
    with pytest.raises(ValueError, match="is not a port"):
        parse_addresses(f"localhost:{text}")


def test_longest_numbers_are_read():
    assert parse_long(str(2**63 - 1)) == 2**63 - 1
    assert parse_long(str(2**63)) is None
    assert parse_duration_ms("285y".replace("y", "d")) == 285 * 86_400_000
    assert parse_duration_ms("9000000000s") == 9_000_000_000_000
    assert parse_size_bytes("8191PiB") == 8191 * 2**50
    assert partitions_of_a_group("0,2-4", "") == [0, 2, 3, 4]
    assert parse_addresses("localhost:65535") == "localhost:65535"


@pytest.mark.parametrize("words", [("node", "remove"), ("quorum", "add"), ("quorum", "remove")], ids=" ".join)
def test_node_id_beyond_the_protocols_32_bits_is_refused_before_any_request(yak, words):
    ran = yak(*words, str(1 << 31), "-y", "-b", "127.0.0.1:1")
    assert ran.code == 2
    assert "invalid value for 'NODE': it is not from 0 to 2147483647" in ran.err
