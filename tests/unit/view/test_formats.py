"""Numbers, sizes and durations as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.view.formats import (
    counted,
    format_age,
    format_count,
    format_duration,
    format_rate,
    format_size,
    group_digits,
    numbered,
)


@given(st.floats(min_value=0, max_value=1e12))
def test_count_is_short_and_close(number: float) -> None:
    text = format_count(number)
    assert len(text) <= 7
    if 1 <= number < 1e11:
        factor = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1)
        assert abs(float(text.rstrip("kMG")) * factor - number) <= number * 0.06 + 0.5


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(0, "0 ms"), (143, "143 ms"), (4_800, "4.8 s"), (59_999, "1 min"), (180_000, "3 min"), (65_000, "1 min 5 s"), (754_000, "13 min"), (7_500_000, "2 h 5 min"),
     (3_600_000, "1 h"), (3 * 86_400_000, "3 d")],
)  # fmt: skip
def test_duration(duration_ms: float, text: str) -> None:
    assert format_duration(duration_ms) == text


@pytest.mark.parametrize(
    ("age_ms", "text"), [(10, "now"), (4_000, "4 s ago"), (-3_000, "in 3 s"), (200_000, "3 min 20 s ago")]
)
def test_age(age_ms: float, text: str) -> None:
    assert format_age(age_ms) == text


def test_size_has_binary_units() -> None:
    assert [format_size(size) for size in (512, 1536, 3 << 30, 120 << 20)] == ["512 B", "1.5 KiB", "3.0 GiB", "120 MiB"]


def test_numbers_are_grouped_and_counted() -> None:
    assert (group_digits(1234567), group_digits(1234567, ",")) == ("1 234 567", "1,234,567")
    assert [counted(number, "record") for number in (0, 1, 1842)] == ["0 records", "1 record", "1 842 records"]
    assert format_rate(12_400) == "12.4k/s"


def test_ids_are_listed_behind_their_noun() -> None:
    assert [numbered("broker", ids) for ids in ([1], (1, 2, 3))] == ["broker 1", "brokers 1, 2, 3"]
