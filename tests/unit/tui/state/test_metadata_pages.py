"""The metadata log as far as it was read."""

from yak.tui.state import metadata_log
from yak.tui.state.metadata_log import MetadataLog


def record(offset, kind="Topic", history="a"):
    said = {"topicUUID": f"id-{offset}", "name": f"t{offset}"} if kind == "Topic" else {}
    return {"offset": offset, "timestamp": float(offset), "kind": kind, "hash": f"{history}{offset}", "record": said}


def page(first, last, *, begin=1, end=None, source="store", history="a"):
    return {
        "begin": begin, "end": last if end is None else end, "next": None, "source": source,
        "records": [record(offset, history=history) for offset in range(first, last + 1)],
    }  # fmt: skip


def test_log_joins_pages_and_lists_the_missing_ones():
    log = MetadataLog()
    assert (len(log), log.missing(1, 9), log.is_loaded) == (0, [], False)
    assert log.take(page(1, 10, end=450))
    log.take(page(401, 450))
    assert len(log) == 450
    assert log.missing(1, 10) == []
    assert log.missing(5, 12) == [1]
    assert log.missing(95, 230) == [1, 100, 200]
    assert log.missing(440, 900) == []
    assert log.time_ms(450) == 450_000
    assert log.time_ms(200) is None


def test_names_of_topics_are_learnt_from_records_and_images():
    log = MetadataLog()
    log.take(page(1, 2))
    before = log.version
    log.learn_names({"topics": [{"topicUUID": "x", "name": "orders"}]})
    assert log.topic_names == {"id-1": "t1", "id-2": "t2", "x": "orders"}
    assert log.version > before
    before = log.version
    log.learn_names({"topics": [{"topicUUID": "x", "name": "orders"}]})
    assert log.version == before


def test_metadata_log_of_another_history_replaces_the_old_records():
    log = MetadataLog()
    log.take(page(1, 10))
    assert not log.take(page(10, 12, history="b"))
    assert sorted(log.records) == [10, 11, 12]
    assert len(log) == 12


def test_a_log_that_ends_earlier_is_another_one():
    log = MetadataLog()
    log.take(page(1, 10))
    log.take({**page(1, 0, end=4), "records": []})
    assert (log.end, log.records) == (4, {})


def test_a_brokers_own_copy_takes_nothing_away():
    log = MetadataLog()
    log.take(page(1, 10))
    log.take(page(7, 9, begin=7, source="copy"))
    assert (log.begin, log.end, len(log.records), log.source) == (1, 10, 10, "copy")


def test_a_log_whose_beginning_was_trimmed_begins_later():
    log = MetadataLog()
    log.take(page(1, 10))
    log.take(page(10, 12, begin=5))
    assert (log.begin, len(log)) == (5, 8)
    assert log.missing(1, 12) == []


def test_metadata_records_far_from_the_users_position_are_evicted_first(monkeypatch):
    monkeypatch.setattr(metadata_log, "RECORDS_MAX", 40)
    log = MetadataLog()
    log.take(page(1, 30, end=100), near=5)
    log.take(page(81, 100), near=5)
    assert len(log.records) <= 22
    assert 5 in log.records
    assert {1, 100} <= set(log.records)
