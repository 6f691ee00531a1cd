import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.errors import raises_error
from yak.commands.options import find_zone
from yak.commands.units import format_time, parse_duration_ms, parse_size_bytes, parse_time_ms
from yak.errors import UsageError

NOW_MS = 1_795_176_000_000


@given(st.integers(0, 20), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(1, 999))
def test_a_duration_is_the_sum_of_its_parts(days, hours, minutes, seconds, ms):
    text = f"{days}d{hours}h{minutes}m{seconds}s{ms}ms"
    assert parse_duration_ms(text) == (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + ms


@pytest.mark.parametrize("text", ["", "5", "5x", "m", "-5s", "5s banana", "1.2.3s", "s5"])
def test_text_that_is_not_a_duration_is_refused(text):
    with raises_error(UsageError, "bad-duration"):
        parse_duration_ms(text)


def test_a_bare_number_takes_the_callers_unit():
    assert parse_duration_ms("3", bare_unit="s") == 3000
    assert parse_duration_ms("2.5", bare_unit="ms") == 2


@given(st.integers(0, 10**6), st.sampled_from(["", "K", "M", "G", "k"]), st.booleans(), st.booleans())
def test_sizes_count_in_thousands_or_1024s(number, prefix, binary, with_b):
    text = f"{number}{prefix}{'i' if binary and prefix else ''}{'B' if with_b else ''}"
    base = 1024 if binary and prefix else 1000
    assert parse_size_bytes(text) == number * base ** ("", "K", "M", "G").index(prefix.upper())


@pytest.mark.parametrize("text", ["", "x", "-1", "1XB", "KB", "1 2"])
def test_text_that_is_not_a_size_is_refused(text):
    with pytest.raises(UsageError):
        parse_size_bytes(text)


@given(st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)), st.integers(-14 * 60, 14 * 60))  # noqa: DTZ001
def test_a_printed_time_reads_back_in_any_zone(moment, minutes):
    zone = timezone(timedelta(minutes=minutes))
    timestamp_ms = int(moment.replace(tzinfo=zone).timestamp() * 1000)
    assert parse_time_ms(format_time(timestamp_ms, zone), now_ms=NOW_MS) == timestamp_ms
    assert parse_time_ms(format_time(timestamp_ms), now_ms=NOW_MS) == timestamp_ms


def test_times_may_be_epochs_distances_and_keywords():
    assert parse_time_ms("now", now_ms=NOW_MS) == NOW_MS
    assert parse_time_ms("-15m", now_ms=NOW_MS) == NOW_MS - 900_000
    assert parse_time_ms("+1h", now_ms=NOW_MS) == NOW_MS + 3_600_000
    assert parse_time_ms("1795176000", now_ms=0) == NOW_MS
    assert parse_time_ms("1795176000000", now_ms=0) == NOW_MS
    assert parse_time_ms("1795176000.5", now_ms=0) == NOW_MS + 500


def test_a_time_without_a_zone_is_read_in_the_one_that_is_set():
    plus_two = timezone(timedelta(hours=2))
    utc = parse_time_ms("2026-11-20T12:00:00", now_ms=NOW_MS, zone=UTC)
    assert parse_time_ms("2026-11-20T12:00:00", now_ms=NOW_MS, zone=plus_two) == utc - 7_200_000
    assert parse_time_ms("2026-11-20T12:00:00Z", now_ms=NOW_MS, zone=plus_two) == utc


def test_local_times_have_the_offset_of_their_own_half_of_the_year(monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        local = find_zone("local")
        printed = [format_time(each, local) for each in (1_782_900_000_001, NOW_MS)]
        read = [
            parse_time_ms(each, now_ms=NOW_MS, zone=local) for each in ("2026-07-01T12:00:00.001", "2026-11-20T13:00")
        ]
        with pytest.raises(UsageError, match="is not a time"):
            parse_time_ms("9999-12-31T23:59:59.999999", now_ms=NOW_MS, zone=local)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert printed == ["2026-07-01T12:00:00.001+02:00", "2026-11-20T13:00:00.000+01:00"]
    assert read == [1_782_900_000_001, NOW_MS]


@pytest.mark.parametrize("text", ["", "yesterday", "12:00", "2026-13-01", "-5"])
def test_text_that_is_not_a_time_is_refused(text):
    with raises_error(UsageError, "bad-time"):
        parse_time_ms(text, now_ms=NOW_MS)


def test_a_timestamp_that_no_calendar_has_stays_a_number():
    assert format_time(2**62) == str(2**62)
