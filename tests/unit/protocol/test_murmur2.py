"""The partition that a key goes to, against other clients' code and Kafka's own examples."""

import pytest
from aiokafka.partitioner import murmur2 as other_murmur2
from hypothesis import given
from hypothesis import strategies as st

from yak.protocol.murmur2 import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_kafkas_examples(data, expected):
    # as they stand in its UtilsTest
    assert murmur2(data) == expected & 0xFFFFFFFF


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_another_clients_code_agrees(data, count):
    assert murmur2(data) == other_murmur2(data) & 0xFFFFFFFF
    assert partition_for_key(data, count) == (other_murmur2(data) & 0x7FFFFFFF) % count
