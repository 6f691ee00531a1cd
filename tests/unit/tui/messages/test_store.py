"""What is kept, in bounds, under changing filters: compared with a list that keeps everything."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.messages import kafka_message
from yak.tui.messages.store import BufferedRecord, MergedStore, Store, held_bytes, pack, unpack


def record(serial, value=b"x", *, topic="orders", headers=()):
    return (topic, 0, serial, 1000, "CreateTime", b"k", value, tuple(headers), 0, serial)


def records(serials):
    return [record(each) for each in serials]


def even(record):
    return record.serial % 2 == 0


def visible(store):
    return [each.serial for piece in store.pieces(7) for each in piece]


def apply_filter(store, test, step=3):
    store.begin_filter(test)
    while store.is_scanning:
        store.scan(step)


def test_a_store_that_is_no_ring_fills_up_and_keeps_what_it_has():
    store = Store(max_rows=5)
    store.add(records(range(4)))
    assert store.has_room
    store.add(records(range(4, 9)))
    assert not store.has_room
    assert visible(store) == list(range(9))
    store.forget_half()
    assert store.has_room
    assert visible(store) == [7, 8]
    assert store.counts().dropped == 7


def test_a_ring_drops_the_oldest_and_counts_them():
    store = Store(max_rows=5, is_ring=True)
    store.add(records(range(12)))
    assert store.has_room
    assert visible(store) == [7, 8, 9, 10, 11]
    assert store.counts().dropped == 7
    assert store.span() == (7, 12)
    assert [store.at(place).serial for place in (7, 11)] == [7, 11]
    assert store.at(6) is None
    assert store.at(12) is None


def test_bytes_are_bounded_too_and_the_last_row_stays_however_large():
    store = Store(max_rows=100, max_bytes=10_000, is_ring=True)
    store.add([record(serial, b"v" * 2_000) for serial in range(9)])
    assert store.counts().held_bytes <= 10_000
    assert visible(store) == [5, 6, 7, 8]
    store.add([record(9, b"v" * 50_000)])
    assert visible(store) == [9]
    full = Store(max_rows=100, max_bytes=10_000)
    full.add([record(0, b"v" * 50_000)])
    assert not full.has_room


def test_headers_weigh_something():
    store = Store(max_rows=100, max_bytes=20_000, is_ring=True)
    store.add([record(serial, headers=[("h", b"v" * 900)] * 10) for serial in range(9)])
    assert len(visible(store)) == 1


def test_hidden_records_are_evicted_first_and_found_by_another_filter_while_room_lasts():
    store = Store(max_rows=6)
    store.add(records(range(6)))
    apply_filter(store, even)
    assert visible(store) == [0, 2, 4]
    assert store.has_room, "hidden rows make room"
    apply_filter(store, lambda record: not even(record))
    assert visible(store) == [1, 3, 5]
    store.add(records([7, 9]), records([6, 8]))
    assert visible(store) == [1, 3, 5, 7, 9]
    assert (store.counts().left_out, store.counts().hidden) == (4, 1)
    apply_filter(store, None)
    assert visible(store) == [1, 3, 5, 7, 8, 9]


def test_old_rows_stay_visible_while_a_filter_is_evaluated():
    store = Store()
    store.add(records(range(10)))
    store.begin_filter(even)
    store.scan(4)
    assert visible(store) == list(range(10))
    assert store.counts().filtering == pytest.approx(0.4)
    store.scan(6)
    assert visible(store) == [0, 2, 4, 6, 8]
    assert store.counts().filtering is None


def test_a_filter_that_comes_while_another_is_tried_takes_its_place():
    store = Store()
    store.add(records(range(10)))
    store.begin_filter(even)
    store.scan(4)
    apply_filter(store, lambda record: record.serial > 6)
    assert visible(store) == [7, 8, 9]


def test_a_filter_of_nothing_counts_at_once():
    store = Store()
    store.begin_filter(even)
    assert not store.is_scanning
    assert store.test is even


def test_filter_survives_when_the_store_is_cleared():
    store = Store()
    store.add(records(range(10)))
    store.begin_filter(even)
    store.clear()
    assert store.test is even
    assert store.counts().held_bytes == 0


def test_every_change_of_what_is_seen_has_another_version():
    store = Store(max_rows=4)
    seen = {store.version}
    for change in (
        lambda: store.add(records(range(4))),
        lambda: store.begin_filter(even),
        lambda: store.scan(10),
        store.forget_half,
        store.clear,
    ):
        change()
        assert store.version not in seen
        seen.add(store.version)


def test_rows_that_go_while_they_are_read_in_pieces_are_left_out():
    store = Store(max_rows=10, is_ring=True)
    store.add(records(range(10)))
    pieces = store.pieces(3)
    assert [each.serial for each in next(pieces)] == [0, 1, 2]
    store.add(records(range(10, 16)))
    assert [each.serial for each in next(pieces)] == [6, 7, 8]


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 12)),
        st.tuples(st.just("filter"), st.sampled_from([None, 2, 3])),
        st.tuples(st.just("half"), st.none()),
    ),
    max_size=25,
)


@given(_STEPS, st.booleans(), st.integers(3, 20))
def test_visible_records_are_the_newest_that_match(steps, is_ring, most):
    store = Store(max_rows=most, is_ring=is_ring)
    everything = []
    divisor = None
    for what, number in steps:
        if what == "add":
            if not store.has_room:
                continue
            new = records(range(len(everything), len(everything) + number))
            everything += new
            holds = [each for each in new if divisor is None or each[9] % divisor == 0]
            store.add(holds, [each for each in new if each not in holds])
        elif what == "filter":
            divisor = number
            apply_filter(store, None if number is None else lambda record, by=number: record.serial % by == 0)
        else:
            store.forget_half()
        counts = store.counts()
        seen = visible(store)
        assert seen == sorted(set(seen))
        assert all(divisor is None or serial % divisor == 0 for serial in seen)
        assert counts.held_bytes == sum(held_bytes(everything[0]) for _ in range(counts.visible + counts.hidden))
        if is_ring:
            assert counts.visible + counts.hidden <= most
        assert counts.visible + counts.hidden + counts.dropped + counts.left_out == len(everything)
        first, end = store.span()
        assert [store.at(place).serial for place in range(first, end)] == seen
        assert [store.place_of(serial) for serial in seen] == list(range(first, end))


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 30))
def test_stores_merged_are_in_the_order_in_which_records_came(owners, most):
    stores = [Store(max_rows=most, is_ring=True) for _ in range(4)]
    for serial, owner in enumerate(owners):
        stores[owner].add([record(serial)])
    merged = MergedStore(stores)
    first, end = merged.span()
    expected = sorted(serial for store in stores for serial in visible(store))
    assert [merged.at(place).serial for place in range(first, end)] == expected
    assert [merged.place_of(serial) for serial in expected] == list(range(first, end))
    assert merged.at(end) is None
    assert merged.place_of(len(owners)) is None


def test_packed_record_is_unpacked_unchanged_and_untracked_by_the_garbage_collector():
    headers = [("a", b"1"), ("b", None)]
    said = kafka_message("orders", 1, 2, timestamp=(1, 3), key=b"k", headers=headers, leader_epoch=None)
    made = pack(said, 7)
    assert unpack(made) == BufferedRecord("orders", 1, 2, 3, "CreateTime", b"k", None, headers, None, 7)
    gc.collect()
    gc.collect()
    assert not gc.is_tracked(made)
