"""The partition of a group: Java's hash code, as Kafka's tools compute it."""

import pytest

from yak.core.placement import partition_of

MAX = 2**31 - 1


@pytest.mark.parametrize(
    ("group_id", "hash_code"),
    [
        ("", 0),
        ("abc", 96354),
        ("test", 3556498),
        ("Hello", 69609650),
        ("polygenelubricants", 0),  # Integer.MIN_VALUE, which has no absolute value: Kafka's Utils.abs gives 0
        ("ÄÖÜ", 196 * 961 + 214 * 31 + 220),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),  # two UTF-16 units
    ],
)
def test_partition_of_a_group_is_javas_hash_code_without_its_sign(group_id: str, hash_code: int) -> None:
    assert partition_of(group_id, MAX) == hash_code % MAX
    assert partition_of(group_id, 50) == hash_code % 50


def test_a_negative_hash_code_loses_its_sign() -> None:
    number = 0
    for character in "my-group":
        number = (number * 31 + ord(character)) % 2**32
    assert number >= 2**31, "a negative int in Java"
    assert partition_of("my-group", 50) == (2**32 - number) % 50
