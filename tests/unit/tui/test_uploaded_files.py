import os

from yak.tui.uploads import VARIABLE, uploaded_files


def test_there_are_none_in_a_terminal(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert uploaded_files() == []


def test_they_come_newest_first_without_those_that_are_still_coming(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    for age, name in enumerate(("new.csv", "old.csv", ".half")):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (1_000 - age, 1_000 - age))
    (tmp_path / "folder").mkdir()
    assert [path.name for path in uploaded_files()] == ["new.csv", "old.csv"]


def test_a_directory_that_went_with_its_server_is_empty(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone"))
    assert uploaded_files() == []
