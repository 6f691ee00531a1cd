"""Records as rows: made when looked at, of the moment that was frozen."""

from yak.tui.look import Look
from yak.tui.messages.kept import Kept, packed
from yak.tui.messages.store import Store
from yak.tui.rows.records import RecordRows, record_columns, record_row

LOOK = Look(is_ascii=True)
NOW_MS = 1_795_176_000_000


def record(serial, *, value=b'{"n": 1}', time_ms=NOW_MS, **more):
    fields = {"key": b"k1", "headers": []} | more
    return Kept("orders", 1, serial, time_ms, "CreateTime", fields["key"], value, fields["headers"], 0, serial)


def texts(row):
    return [cell.text for cell in row.cells]


def frozen(store, **how):
    rows = RecordRows()
    rows.freeze(store, LOOK, NOW_MS, **({"view": "auto", "with_topic": False} | how))
    return rows


def test_a_row_and_its_columns():
    row = record_row(record(7, headers=[("a", b"1"), ("b", None)]), LOOK, NOW_MS, view="auto", with_topic=True)
    assert row.key == "7"
    assert texts(row) == ["orders", "1@7", "12:00:00.000Z", "k1", '{"n": 1}', "a=1, b=null", "13 B"]
    labels = [column.label for column in record_columns(LOOK, with_topic=True)]
    assert labels == ["TOPIC", "OFFSET", "TIME (UTC)", "KEY", "VALUE", "HEADERS", "SIZE"]
    assert len(record_columns(LOOK, with_topic=False)) == 6


def test_what_is_not_there_is_dim():
    row = record_row(record(7, value=None, key=None, time_ms=-1), LOOK, NOW_MS, view="auto", with_topic=False)
    assert texts(row) == ["1@7", "-", "null", "null", "", "0 B"]
    assert row.cells[3].tone == "dim"


def test_a_time_of_another_day_says_which():
    row = record_row(record(7, time_ms=NOW_MS - 90_000_000), LOOK, NOW_MS, view="auto", with_topic=False)
    assert texts(row)[1] == "2026-11-19 11:00:00.000Z"


def test_what_comes_and_goes_after_the_freeze_does_not_move_the_rows():
    store = Store(max_rows=5, is_ring=True)
    store.add([packed(record(serial)) for serial in range(5)])
    rows = frozen(store)
    assert [rows.at(index).key for index in range(len(rows))] == ["0", "1", "2", "3", "4"]
    store.add([packed(record(5)), packed(record(6))])
    assert [rows.at(index).key for index in range(len(rows))] == ["", "", "2", "3", "4"]
    assert len(rows.at(0).cells) == len(record_columns(LOOK, with_topic=False))
    assert rows.place_of("3") == 3
    assert rows.place_of("6") is None, "not there yet when it was frozen"
    assert rows.place_of("0") is None
    rows.freeze(store, LOOK, NOW_MS, view="auto", with_topic=False)
    assert [rows.at(index).key for index in range(len(rows))] == ["2", "3", "4", "5", "6"]
    assert rows.place_of("6") == 4


def test_rows_are_made_once_and_anew_when_they_are_written_otherwise():
    store = Store()
    store.add([packed(record(0))])
    rows = frozen(store)
    first = rows.at(0)
    assert rows.at(0) is first
    rows.freeze(store, LOOK, NOW_MS + 500, view="auto", with_topic=False)
    assert rows.at(0) is first
    rows.freeze(store, LOOK, NOW_MS, view="hex", with_topic=False)
    assert texts(rows.at(0))[3].startswith("⟨hex⟩ 7b")


def test_no_records_are_no_rows():
    rows = RecordRows()
    assert len(rows) == 0
    assert rows.place_of("1") is None
    assert frozen(Store()).place_of("orders") is None
    assert rows.record_at(0) is None
