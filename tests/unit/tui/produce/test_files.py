import os

import pytest

from yak.errors import YakError
from yak.tui.look import Look
from yak.tui.produce.files import complete_path, list_directory, places
from yak.tui.rows.files import file_rows


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "z").mkdir()
    for name in ("b.csv", "A.CSV", "o.csv.rejected.csv", "x.bin", ".hidden.csv"):
        (tmp_path / name).write_text("12345")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    return tmp_path


def test_directories_come_first_then_csv_files_then_others(directory):
    entries = list_directory(str(directory))
    assert [each.name for each in entries] == ["..", "z", "A.CSV", "b.csv", "gone", "o.csv.rejected.csv", "x.bin"]
    assert entries[0].path == str(directory.parent)
    assert [each.name for each in entries if each.is_likely] == ["A.CSV", "b.csv"]


def test_a_directory_that_cannot_be_listed_says_so(directory):
    with pytest.raises(YakError) as caught:
        list_directory(str(directory / "nothing"))
    assert caught.value.code == "file"
    assert list_directory("/")[0].name != ".."


def test_a_path_is_completed(directory):
    assert complete_path(f"{directory}/b") == f"{directory}/b.csv"
    assert complete_path(f"{directory}/z") == f"{directory}/z{os.sep}"
    assert complete_path(f"{directory}/q") is None
    assert complete_path(f"{directory}/") is None
    assert complete_path(f"{directory}/nothing/x") is None
    assert complete_path("") is None


def test_uploads_of_the_browser_come_first(directory):
    assert places({"YAK_UI_UPLOADS": str(directory)})[0] == ("uploads", str(directory))
    assert places({"YAK_UI_UPLOADS": str(directory / "nothing")})[0][0] == "here"
    assert places({})[0][0] == "here"


def test_files_as_rows(directory):
    look = Look(is_ascii=True)
    now_ms = int((directory / "b.csv").stat().st_mtime * 1000) + 60_000
    rows = {row.cells[0].text: row for row in file_rows(list_directory(str(directory)), look, now_ms)}
    assert "../ up" in rows
    assert "z/" in rows
    assert rows["b.csv"].cells[1].text == "5 B"
    assert rows["b.csv"].cells[2].text == "1 min ago"
    assert (rows["b.csv"].cells[0].tone, rows["x.bin"].cells[0].tone) == ("strong", "dim")
