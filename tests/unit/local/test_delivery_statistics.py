"""The count of a load without an end: the same as the demo's own for the same history, and with nothing kept of it."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from yak.ids import TopicPartition
from yak.local.demo.delivery import Delivery, deliveries
from yak.local.demo.delivery_statistics import Counts, DeliveryStatistics
from yak.sim.history_checker.history import Final, History, Outcome, Poll, Send, run

HERE = TopicPartition("orders", 0)


def counted(acknowledged: list[int], stored: list[int]) -> Counts:
    """Acknowledged at their own number as offset, then all of `stored` read in this order."""
    statistics = DeliveryStatistics()
    for number in acknowledged:
        statistics.note_acknowledged(HERE, number, None, 0.0)
    for offset, number in enumerate(stored):
        statistics.note_read(HERE, number, offset)
    return statistics.counts(0.0)


def checked(acknowledged: dict[int, int | None], stored: Sequence[int]) -> Delivery:
    """The counts of the history checker for the same records."""
    name, history = "orders-0", History()
    for number, offset in acknowledged.items():
        history.add(Send("writer", name, number, 0.0, 1.0, Outcome.OK, offset))
    history.add(Poll("final", 2.0, 2.0, (run(name, list(enumerate(stored))),)))
    history.add(Final("final", {name: len(stored)}))
    return deliveries(history).get(name, Delivery("orders"))


def test_acknowledged_records_that_are_not_read_yet_are_waiting_and_not_lost() -> None:
    counts = counted([0, 1, 2], [0])
    assert (counts.acknowledged, counts.read, counts.waiting, counts.lost) == (3, 1, 2, 0)
    assert counts.wrong == 0
    assert counts.at_the_end().lost == 2


def test_a_record_that_the_reader_has_passed_is_lost() -> None:
    counts = counted([0, 1, 2], [0, 2])
    assert (counts.lost, counts.waiting) == (1, 0)


def test_a_loss_is_known_also_when_the_acknowledgement_comes_after_the_reader_passed() -> None:
    statistics = DeliveryStatistics()
    statistics.note_read(HERE, 1, 0)
    statistics.note_acknowledged(HERE, 0, 0, 0.0)
    assert statistics.counts(0.0).lost == 1


def test_a_late_record_is_reordered_and_not_lost() -> None:
    counts = counted([0, 1, 2], [0, 2, 1])
    assert (counts.lost, counts.reordered, counts.waiting) == (0, 1, 0)


def test_the_same_number_at_another_offset_is_a_duplicate_and_at_the_same_one_is_read_again() -> None:
    statistics = DeliveryStatistics()
    for offset, number in ((0, 0), (1, 1), (2, 0), (1, 1), (2, 0)):
        statistics.note_read(HERE, number, offset)
    counts = statistics.counts(0.0)
    assert (counts.read, counts.duplicated, counts.read_again) == (3, 1, 2)


def test_record_at_another_offset_than_acknowledged_is_moved_in_either_report_order() -> None:
    statistics = DeliveryStatistics()
    statistics.note_acknowledged(HERE, 0, 5, 0.0)
    statistics.note_read(HERE, 0, 6)
    statistics.note_read(HERE, 1, 7)
    statistics.note_acknowledged(HERE, 1, 8, 0.0)
    assert statistics.counts(0.0).moved == 2


def test_a_record_without_an_acknowledgement_is_unconfirmed_and_not_wrong() -> None:
    counts = counted([0], [0, 1])
    assert (counts.unconfirmed, counts.wrong) == (1, 0)


def test_partitions_have_numbers_of_their_own() -> None:
    statistics = DeliveryStatistics()
    for partition in (0, 1):
        statistics.note_acknowledged(TopicPartition("orders", partition), 0, 0, 0.0)
        statistics.note_read(TopicPartition("orders", partition), 0, 0)
    counts = statistics.counts(0.0)
    assert (counts.acknowledged, counts.read, counts.wrong) == (2, 2, 0)


def test_oldest_waiting_record_is_reported_by_its_age() -> None:
    statistics = DeliveryStatistics()
    statistics.note_acknowledged(HERE, 0, 0, 100.0)
    statistics.note_acknowledged(HERE, 1, 1, 300.0)
    assert statistics.counts(1000.0).oldest_waiting_ms == 900.0
    statistics.note_read(HERE, 0, 0)
    assert statistics.counts(1000.0).oldest_waiting_ms == 700.0
    statistics.note_read(HERE, 1, 1)
    assert statistics.counts(1000.0).oldest_waiting_ms == 0.0


def test_statistics_retain_nothing_of_records_both_acknowledged_and_read() -> None:
    statistics = DeliveryStatistics()
    for number in range(10_000):
        statistics.note_acknowledged(HERE, number, number, 0.0)
        statistics.note_read(HERE, number, number)
    kept = statistics._partitions[HERE]
    assert (kept.waiting, kept.unconfirmed, kept.holes) == ({}, {}, set())


@given(st.lists(st.integers(0, 12), max_size=20), st.sets(st.integers(0, 12)), st.data())
def test_at_the_end_it_counts_as_the_demo_does(stored: list[int], acknowledged: set[int], data: st.DataObject) -> None:
    """Whatever is stored in whatever order, and however the two tellings are interleaved."""
    sent = sorted(acknowledged)
    statistics = DeliveryStatistics()
    acks, reads = list(sent), list(enumerate(stored))
    while acks or reads:
        if not reads or (acks and data.draw(st.booleans())):
            statistics.note_acknowledged(HERE, acks.pop(0), None, 0.0)
        else:
            offset, number = reads.pop(0)
            statistics.note_read(HERE, number, offset)
    counts = statistics.counts(0.0).at_the_end()
    expected = checked(dict.fromkeys(sent), stored)
    assert (counts.acknowledged, counts.read) == (expected.acknowledged, expected.read)
    assert counts.lost == expected.lost
    assert counts.duplicated == expected.duplicated
    assert counts.unconfirmed == expected.unconfirmed
    if len(set(stored)) == len(stored) and set(stored) <= acknowledged:
        assert (counts.reordered > 0) == (expected.out_of_order > 0)


@given(st.permutations(range(8)), st.permutations(range(8)))
def test_a_place_that_differs_is_moved_as_the_demo_counts_it(stored: list[int], places: list[int]) -> None:
    statistics = DeliveryStatistics()
    for number, offset in enumerate(places):
        statistics.note_acknowledged(HERE, number, offset, 0.0)
    for offset, number in enumerate(stored):
        statistics.note_read(HERE, number, offset)
    expected = checked(dict(enumerate(places)), stored)
    assert statistics.counts(0.0).moved == expected.moved
