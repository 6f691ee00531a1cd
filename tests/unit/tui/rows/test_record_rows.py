"""Rows of records, and a reading in words."""

from dataclasses import fields

import pytest

from yak.client.offset_spec import END, START
from yak.errors import YakError
from yak.tui.formatter import Formatter
from yak.tui.messages.reader import Status
from yak.tui.messages.store import BufferedRecord, Counts, Store
from yak.tui.messages.subscription import Choice, Seek, Subscription
from yak.tui.rows.records import (
    RecordRows,
    empty_text,
    fitting,
    record_columns,
    record_row,
    status_cells,
    tile_status,
    tile_title,
    topic_choice_rows,
)
from yak.tui.state.picture import Picture

FMT = Formatter(is_ascii=True)
NOW_MS = 1_795_176_000_000


def record(serial, *, value=b'{"n": 1}', time_ms=NOW_MS, **more):
    fields = {"key": b"k1", "headers": []} | more
    return BufferedRecord(
        "orders", 1, serial, time_ms, "CreateTime", fields["key"], value, fields["headers"], 0, serial
    )


def packed(preferred):
    return tuple(getattr(preferred, each.name) for each in fields(preferred))


def texts(row):
    return [cell.text for cell in row.cells]


def frozen(store, **how):
    rows = RecordRows()
    rows.freeze(store, FMT, NOW_MS, **({"view": "auto", "with_topic": False} | how))
    return rows


def test_a_row_and_its_columns():
    row = record_row(record(7, headers=[("a", b"1"), ("b", None)]), FMT, NOW_MS, view="auto", with_topic=True)
    assert row.key == "7"
    assert texts(row) == ["orders", "1@7", "12:00:00.000Z", "k1", '{"n": 1}', "a=1, b=null", "13 B"]
    labels = [column.label for column in record_columns(FMT, with_topic=True)]
    assert labels == ["TOPIC", "OFFSET", "TIME (UTC)", "KEY", "VALUE", "HEADERS", "SIZE"]
    assert len(record_columns(FMT, with_topic=False)) == 6


def test_missing_record_fields_are_dim():
    row = record_row(record(7, value=None, key=None, time_ms=-1), FMT, NOW_MS, view="auto", with_topic=False)
    assert texts(row) == ["1@7", "-", "null", "null", "", "0 B"]
    assert row.cells[3].tone == "dim"


def test_a_time_of_another_day_says_which():
    row = record_row(record(7, time_ms=NOW_MS - 90_000_000), FMT, NOW_MS, view="auto", with_topic=False)
    assert texts(row)[1] == "2026-11-19 11:00:00.000Z"


def test_frozen_rows_do_not_move_when_records_are_added_or_evicted():
    store = Store(max_rows=5, is_ring=True)
    store.add([packed(record(serial)) for serial in range(5)])
    rows = frozen(store)
    assert [rows.at(index).key for index in range(len(rows))] == ["0", "1", "2", "3", "4"]
    store.add([packed(record(5)), packed(record(6))])
    assert [rows.at(index).key for index in range(len(rows))] == ["", "", "2", "3", "4"]
    assert len(rows.at(0).cells) == len(record_columns(FMT, with_topic=False))
    assert rows.place_of("3") == 3
    assert rows.place_of("6") is None, "not there yet when it was frozen"
    assert rows.place_of("0") is None
    rows.freeze(store, FMT, NOW_MS, view="auto", with_topic=False)
    assert [rows.at(index).key for index in range(len(rows))] == ["2", "3", "4", "5", "6"]
    assert rows.place_of("6") == 4


def test_record_rows_are_cached_until_their_format_changes():
    store = Store()
    store.add([packed(record(0))])
    rows = frozen(store)
    first = rows.at(0)
    assert rows.at(0) is first
    rows.freeze(store, FMT, NOW_MS + 500, view="auto", with_topic=False)
    assert rows.at(0) is first
    rows.freeze(store, FMT, NOW_MS, view="hex", with_topic=False)
    assert texts(rows.at(0))[3].startswith("⟨hex⟩ 7b")


def test_no_records_are_no_rows():
    rows = RecordRows()
    assert len(rows) == 0
    assert rows.place_of("1") is None
    assert frozen(Store()).place_of("orders") is None
    assert rows.record_at(0) is None


TAIL = Subscription((Choice("orders"),), Seek(END, None, 100))
BROWSE = Subscription((Choice("orders"),), Seek(START))
GROUP = Subscription((Choice("orders"),), group="audit")


def counts(**given):
    fields = {"visible": 0, "hidden": 0, "held_bytes": 0, "dropped": 0, "left_out": 0, "filtering": None}
    return Counts(**(fields | given))


def line(status, preferred=None, wanted=TAIL, filter_text=""):
    return [cell.text for cell in status_cells(status, preferred or counts(), wanted, filter_text, FMT)]


def test_a_tail_that_samples_says_so_first():
    status = Status("reading", read=98_420, rate=9842.4, every=20, behind=12)
    assert line(status, counts(visible=4921)) == ["[up] following", "showing 1 of 20, 9 842/s", "98 420 read"]


def test_status_line_reports_lag_and_dropped_records():
    status = Status("reading", read=5000, rate=10.0, behind=1204)
    text = line(status, counts(visible=10, dropped=3, left_out=4))
    assert text[3:] == ["behind 1 204", "3 older dropped", "4 hidden not kept"]


def test_a_lag_of_less_than_a_second_is_none():
    assert not any("behind" in word for word in line(Status("reading", rate=10_000.0, behind=900)))


@pytest.mark.parametrize(
    ("phase", "behind", "wanted", "text"),
    [
        ("reading", 0, BROWSE, "[up] at the end"),
        ("reading", 9, BROWSE, "[up] reading"),
        ("reading", 0, TAIL, "[up] following"),
        ("paused", 0, TAIL, "[||] paused"),
        ("full", 0, BROWSE, "[!] full"),
        ("done", 0, BROWSE, "[ok] all read"),
        ("joining", None, GROUP, "[?] joining the group"),
        ("failed", None, TAIL, "[x] stopped"),
    ],
)
def test_every_phase_has_a_sign_and_a_text(phase, behind, wanted, text):
    assert line(Status(phase, behind=behind), wanted=wanted)[0] == text


def test_a_full_list_names_the_key_that_helps():
    assert line(Status("full"), wanted=BROWSE)[1] == "m reads on, without the older half"


def test_a_filter_says_what_it_found_of_how_many():
    status = Status("reading", read=20_000, scanned=18_204)
    assert line(status, counts(visible=3), filter_text="k:u1")[-2:] == ["/k:u1", "3 match, 18 204 scanned"]
    assert line(status, counts(filtering=0.43), filter_text="k:u1")[-1] == "filtering 43%"


def empty(status, wanted=TAIL, filter_text="", **preferred):
    return empty_text(status, counts(**preferred), wanted, filter_text, FMT)


def test_an_empty_list_says_what_why_and_which_key():
    assert (
        empty(Status("reading", scanned=18_204), filter_text="v:error")
        == "No record matches v:error. 18 204 scanned. esc clears the filter."
    )
    assert "p sends one" in empty(Status("reading"))
    assert "last 100 of each partition" in empty(Status("done"), Subscription((Choice("orders"),), Seek(END, END, 100)))
    assert empty(Status("opening")) == "Opening orders ..."
    assert empty(Status("joining"), GROUP).startswith("Waiting for the assignment from group audit")
    assert "group audit" in empty(Status("reading"), GROUP)
    assert empty(Status("reading"), BROWSE) == "Reading orders ..."
    assert empty(Status("reading", notes=("orders-0 starts at offset 5; 0 was asked for",))).endswith("was asked for")


def test_an_error_says_what_why_and_what_to_try():
    error = YakError("unknown-topic", 'topic "x" does not exist', why='closest: "xy"', try_=("yak topics list",))
    assert empty(Status("failed", error)) == (
        'topic "x" does not exist: closest: "xy"\nTry yak topics list\no reads something else.'
    )
    assert empty(Status("waiting", error)).endswith("It is retried every second.")


def test_tile_status_has_the_whole_parts_that_fit():
    status = Status("reading", read=2000, rate=12.0, behind=0, uncommitted=2000)
    wide = tile_status(status, counts(visible=2000), GROUP, "", FMT, 80)
    assert wide == "[up] following  lag 0  2 000 uncommitted  12/s  2 000 read"
    assert tile_status(status, counts(), GROUP, "", FMT, 30) == "[up] following  lag 0  12/s"
    assert tile_title("A", GROUP, 40) == "A orders  group audit"
    assert tile_title("C", TAIL, 40) == "C orders  no group  last 100"
    assert tile_title("C", TAIL, 18) == "C orders  no group"
    assert fitting(["longer than there is room"], 4) == "longer than there is room"


def test_topics_to_choose_from_with_those_of_the_cluster_last():
    picture = Picture()
    for topic in ("__consumer_offsets", "b", "a"):
        partition = {
            "topic": topic, "partition": 0, "leader": 1, "leader_epoch": 0, "partition_epoch": 0, "replicas": [1], "isr": [1], "min_isr": 1,
            "high_watermark": 1200, "log_end_offsets": {"1": 1200},
        }  # fmt: skip
        picture._partition(partition, 0)
    rows = topic_choice_rows(picture, FMT)
    assert [row.key for row in rows] == ["a", "b", "__consumer_offsets"]
    assert [cell.text for cell in rows[0].cells] == ["a", "1", "1 200", "0/s"]


def test_record_with_a_timestamp_beyond_the_calendar_has_a_row():
    """Microseconds in place of milliseconds, where the topic does not refuse them."""
    row = record_row(record(7, time_ms=NOW_MS * 1000), FMT, NOW_MS, view="auto", with_topic=False)
    assert texts(row)[1] == f"{NOW_MS * 1000} ms"
