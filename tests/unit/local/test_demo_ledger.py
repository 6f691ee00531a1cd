"""The demo's count: every way in which a message can be missing, there twice, elsewhere, or out of order."""

from hypothesis import given
from hypothesis import strategies as st

from yak.local.demo.ledger import Acknowledged, Stored, compare
from yak.local.demo.load import content_of, csv_content


def acked(*numbers: int) -> list[Acknowledged]:
    return [Acknowledged(b"k", number, 0, place) for place, number in enumerate(numbers)]


def stored(*numbers: int) -> list[Stored]:
    return [Stored(b"k", number, 0, place) for place, number in enumerate(numbers)]


def test_the_same_messages_in_the_same_places_hold() -> None:
    verdict = compare("t", acked(1, 2, 3), stored(1, 2, 3))
    assert verdict.holds
    assert (verdict.acknowledged, verdict.read) == (3, 3)


def test_an_acknowledged_message_that_is_not_read_is_lost() -> None:
    verdict = compare("t", acked(1, 2, 3), stored(1, 2))
    assert verdict.lost == 1
    assert not verdict.holds


def test_a_message_read_twice_is_duplicated() -> None:
    verdict = compare("t", acked(1, 2), stored(1, 2, 2))
    assert verdict.duplicated == 1
    assert not verdict.holds


def test_a_message_at_another_offset_is_moved() -> None:
    verdict = compare("t", acked(1, 2), [Stored(b"k", 1, 0, 0), Stored(b"k", 2, 0, 5)])
    assert verdict.moved == 1
    assert not verdict.holds


def test_a_message_before_an_earlier_one_of_its_key_is_out_of_order() -> None:
    sent = [Acknowledged(b"k", number) for number in (1, 2, 3)]
    verdict = compare("t", sent, stored(1, 3, 2))
    assert verdict.out_of_order == 1
    assert not verdict.holds


def test_order_counts_within_a_key_only() -> None:
    sent = [Acknowledged(b"a", 1), Acknowledged(b"b", 2)]
    assert compare("t", sent, [Stored(b"b", 2, 0, 0), Stored(b"a", 1, 0, 1)]).holds


def test_a_message_that_was_never_acknowledged_may_be_there() -> None:
    verdict = compare("t", acked(1), stored(1, 2))
    assert verdict.unconfirmed == 1
    assert verdict.holds


def test_a_topic_without_a_single_acknowledgement_does_not_hold() -> None:
    assert not compare("t", [], []).holds


@given(st.lists(st.integers(), unique=True, min_size=1), st.data())
def test_dropping_any_messages_is_counted_exactly(numbers: list[int], data: st.DataObject) -> None:
    dropped = data.draw(st.sets(st.sampled_from(numbers)))
    kept = [message for message in stored(*numbers) if message.content not in dropped]
    verdict = compare("t", acked(*numbers), kept)
    assert verdict.lost == len(dropped)
    assert verdict.holds == (not dropped)


def test_a_csv_row_is_known_whatever_the_form_of_its_json() -> None:
    row = {"row": "1", "folder": "json", "file": "x.py", "size_bytes": "12", "modified": "2026-01-01T00:00:00Z"}
    value = b'{ "file": "x.py", "row": "1", "modified": "2026-01-01T00:00:00Z", "size_bytes": "12" }'
    assert content_of("files", value) == csv_content(row)
    assert content_of("files", b"not json") == b"not json"
    assert content_of("server_metrics", b"{}") == b"{}"
