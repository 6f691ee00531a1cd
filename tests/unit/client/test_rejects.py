import csv

import pytest

from yak.client.inputs import Row
from yak.client.rejects import Rejects, rejects_path
from yak.errors import YakError


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_bad_rows_are_stored_with_their_position_and_reason(tmp_path):
    path = rejects_path(str(tmp_path / "o.csv"))
    assert path.endswith("o.csv.rejected.csv")
    rejects = Rejects(path, is_resumed=False)
    rejects.add(Row(1, None, "2 columns, not 3", ("u2", "a,b"), 3), ("id", "total"))
    rejects.add(Row(4, None, "", ("u5", "x\ny"), 6), ("id", "total"), "too large")
    rejects.close()
    assert rows_of(path) == [
        {"reason": "2 columns, not 3", "row": "2", "line": "3", "id": "u2", "total": "a,b"},
        {"reason": "too large", "row": "5", "line": "6", "id": "u5", "total": "x\ny"},
    ]
    assert rejects.count == 2


def test_resumed_run_appends_to_the_rejects_file_and_a_new_run_overwrites_it(tmp_path):
    path = str(tmp_path / "r.csv")
    for is_resumed, together in ((True, 1), (True, 2), (False, 1)):
        rejects = Rejects(path, is_resumed=is_resumed)
        rejects.add(Row(0, None, "bad", ("1",), 0), ("id",))
        rejects.close()
        assert len(rows_of(path)) == together
    assert rows_of(path) == [{"reason": "bad", "row": "1", "line": "", "id": "1"}]


def test_bad_row_is_in_the_file_before_the_run_ends(tmp_path):
    """A run that is killed may have written a checkpoint behind it: no later run would name it."""
    path = str(tmp_path / "r.csv")
    rejects = Rejects(path, is_resumed=False)
    rejects.add(Row(0, None, "bad", ("1",), 0), ("id",))
    assert rows_of(path) == [{"reason": "bad", "row": "1", "line": "", "id": "1"}]
    rejects.keep()
    rejects.close()
    rejects.keep()


def test_no_bad_row_no_file(tmp_path):
    Rejects(str(tmp_path / "r.csv"), is_resumed=False).close()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    rejects = Rejects(str(tmp_path / "none" / "r.csv"), is_resumed=False)
    with pytest.raises(YakError) as caught:
        rejects.add(Row(0, None, "bad"), ())
    assert caught.value.code == "file"
