import time

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from yak.tui.formatter import GROUP, ZONES, Formatter, round_up

FMT = Formatter()
LETTERS = Formatter(is_ascii=True)


def test_numbers_are_grouped_and_none_is_a_dash():
    assert FMT.number(1234567) == f"1{GROUP}234{GROUP}567"
    assert LETTERS.number(1234567) == "1 234 567"
    assert FMT.number(None) == "–"
    assert FMT.number(0) == "0"


def test_things_are_counted_in_singular_and_plural():
    found = [FMT.counted(number, "record") for number in (0, 1, 1234)]
    assert found == ["0 records", "1 record", f"1{GROUP}234 records"]


def test_sizes_have_their_unit():
    assert FMT.size(0) == "0 B"
    assert FMT.size(999) == "999 B"
    assert FMT.size(1024) == "1.0 KiB"
    assert FMT.size(412 * 1024 * 1024) == "412 MiB"
    assert FMT.size(1.5 * 1024**4) == "1.5 TiB"
    assert FMT.size_rate(2048) == "2.0 KiB/s"


@given(st.floats(min_value=0, max_value=1e17))
def test_a_size_is_never_longer_than_eight_letters(value):
    assert len(FMT.size(value)) <= 8


def test_times_are_in_the_zone_that_was_chosen():
    moment = 1_795_213_457_745
    assert FMT.time(moment, moment) == "22:24:17Z"
    assert FMT.time(moment, moment, millis=True) == "22:24:17.745Z"
    assert FMT.day_and_time(moment, moment) == "2026-11-20 22:24:17.745Z"
    assert Formatter("relative").time(moment, moment + 4_200) == "4 s ago"
    assert FMT.time(None, moment) == "–"


def test_typed_time_without_a_zone_is_read_in_the_zone_of_the_display(monkeypatch):
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        found = [Formatter(zone).parse_time_ms("2026-11-20T22:24:17.745", 1_795_300_000_000) for zone in ZONES]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found == [1_795_213_457_745, 1_795_206_257_745, 1_795_213_457_745]


def test_typed_local_time_of_summer_is_read_in_summer_time_in_winter_too(monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        found = Formatter("local").parse_time_ms("2026-07-01T12:00", 1_795_300_000_000)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found == 1_782_900_000_000


@given(st.lists(st.floats(min_value=0, max_value=1e9), max_size=100), st.integers(1, 60))
def test_a_spark_has_a_block_for_each_value_or_for_some_of_them(values, width):
    assert cell_len(FMT.spark(values, width)) == min(len(values), width)


def test_a_spark_of_more_values_shows_all_of_them():
    assert FMT.spark([8, 8, 0, 0], 2) == "█▁"
    assert LETTERS.spark([1, 9, 3], 10) == "3 max 9"


@given(st.floats(0, 1), st.integers(2, 50))
def test_a_bar_is_full_or_empty_only_when_all_or_nothing_is(share, width):
    bar = FMT.bar(share, width)
    assert len(bar) == width
    assert (bar == "█" * width) == (share == 1)
    assert (bar == "░" * width) == (share == 0)


def test_round_up_gives_the_next_of_1_2_5_10():
    assert [round_up(least) for least in (0, 1, 1.1, 3, 6, 100, 501)] == [1, 1, 2, 5, 10, 100, 1000]


def test_every_sign_has_letters():
    from yak.tui.formatter import _SIGNS

    assert all(sign.strip() and letters.isascii() for sign, letters in _SIGNS.values())


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["utc", "local", "relative"]))
def test_every_record_timestamp_can_be_formatted(time_ms, zone):
    fmt = Formatter(zone)
    assert fmt.time(time_ms, 0, millis=True)
    assert fmt.day_and_time(time_ms, 0)


def test_time_outside_of_the_calendar_is_formatted_as_a_number():
    microseconds = 1_795_213_457_745_000
    assert FMT.day_and_time(microseconds, 0) == FMT.time(microseconds, 0) == f"{microseconds} ms"
