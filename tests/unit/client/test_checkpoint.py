import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.errors import raises_error
from yak.client.checkpoint import Checkpoint
from yak.client.produce import AckedPrefix
from yak.errors import UsageError, YakError


@given(st.permutations(range(12)), st.integers(0, 12))
def test_the_prefix_is_exactly_what_is_settled_from_the_first_on(order, count):
    prefix = AckedPrefix()
    settled = set()
    for number in order[:count]:
        prefix.add(number)
        settled.add(number)
        expected = next(place for place in range(13) if place not in settled)
        assert prefix.length == expected


def test_a_checkpoint_is_read_back_and_survives_that_the_file_grows(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("a\n1\n")
    Checkpoint(str(tmp_path / "ck"), str(source), "t").write(7)
    with source.open("a") as file:
        file.writelines(f"{random.random()}\n" for _ in range(1000))
    assert Checkpoint(str(tmp_path / "ck"), str(source), "t").read() == 7


def test_without_a_file_it_starts_at_the_first_row(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("a\n")
    assert Checkpoint(str(tmp_path / "ck"), str(source), "t").read() == 0


def test_another_file_or_topic_or_rubbish_is_refused(tmp_path):
    source, other, path = tmp_path / "in.csv", tmp_path / "other.csv", tmp_path / "ck"
    source.write_text("a\n1\n")
    other.write_text("b\n1\n")
    Checkpoint(str(path), str(source), "t").write(1)
    for wrong in (Checkpoint(str(path), str(other), "t"), Checkpoint(str(path), str(source), "u")):
        with raises_error(UsageError, "resume-mismatch"):
            wrong.read()
    for rubbish in ("", "{}", "[]", "not json"):
        path.write_text(rubbish)
        with raises_error(YakError, "resume-unreadable"):
            Checkpoint(str(path), str(source), "t").read()


@pytest.mark.parametrize(
    ("written", "now", "is_same"), [("a", "a", True), ("a", "b", False), (None, "b", True), ("a", None, True)]
)
def test_checkpoint_of_a_topic_that_was_created_again_is_refused(tmp_path, written, now, is_same):
    source, path = tmp_path / "in.csv", str(tmp_path / "ck")
    source.write_text("a\n1\n")
    before, after = (Checkpoint(path, str(source), "t") for _ in range(2))
    before.topic_id, after.topic_id = written, now
    before.write(1)
    if is_same:
        assert after.read() == 1
        return
    with raises_error(UsageError, "resume-mismatch", match="of an earlier topic t"):
        after.read()
