"""Large answers: long runs of records are named for the kernel to send, the rest is read."""

import pytest

from tests.rig import Rig, fetch_fields
from tests.unit.broker.requests import values_of
from tests.unit.noted_calls import note_calls
from yak.sim.disk import SimSlice

VALUE = b"x" * 100_000


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create_topic("large", partitions=3)
    for partition in range(3):
        for number in range(12):
            rig.produce("large", [b"%d:%d:" % (partition, number) + VALUE], partition=partition)
    return rig


def fetch(rig: Rig, positions: list[int], *, max_bytes: int = 50 << 20) -> list[list[bytes]]:
    fields = fetch_fields("large", 0, max_bytes=max_bytes)
    (one,) = fields["topics"][0]["partitions"]
    fields["topics"][0]["partitions"] = [
        one | {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        for index, offset in enumerate(positions)
    ]
    answer = rig.ask(1, 12, **fields)
    return [[value[: -len(VALUE)] for value in values_of(each)] for each in answer.responses[0].partitions]


def test_fetch_response_exceeds_the_in_memory_limit_and_has_every_record_once(rig):
    first = fetch(rig, [0, 0, 0])
    assert sum(map(len, first)) > 12, "no more than an answer in memory has"
    seen = first
    while any(len(values) < 12 for values in seen):
        more = fetch(rig, [len(values) for values in seen])
        assert any(more)
        seen = [values + new for values, new in zip(seen, more, strict=True)]
    assert seen == [[b"%d:%d:" % (partition, number) for number in range(12)] for partition in range(3)]


def test_max_bytes_of_the_fetch_limits_slices_too(rig):
    found = fetch(rig, [0, 0, 0], max_bytes=1_500_000)
    assert sum(map(len, found)) <= 15


def test_a_long_run_of_one_partition_is_sliced_and_a_short_one_is_read(rig, monkeypatch):
    sent = note_calls(monkeypatch, SimSlice, "__bytes__")
    assert len(bytes(rig.fetch("large", 3).records)) == sum(len(part) for (part,) in sent) > len(VALUE)
    sent.clear()
    rig.produce("large", [b"short"])
    rig.produce("large", [b"shorter"])
    assert rig.fetch("large", 12).records
    assert not sent


def test_a_damaged_first_batch_is_not_sliced(rig):
    log = rig.node.broker.partitions["large", 0].log
    assert log.slice(6, 1 << 20, 12) is not None
    start = log.positions.recent[6]
    data = rig.node.disk.open(log.active.open().path)._content.data
    data[start : start + 8] = (77).to_bytes(8, "big")
    assert log.slice(6, 1 << 20, 12) is None


def test_cold_bytes_are_no_slices_and_come_all_the_same(rig):
    rig.node.disk.cached_bytes = 0
    seen = [[], [], []]
    for _ in range(12):
        for values, more in zip(seen, fetch(rig, [len(values) for values in seen]), strict=True):
            values += more
    assert [len(values) for values in seen] == [12, 12, 12]
