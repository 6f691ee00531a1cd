import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.tui.web.server import RefusedRequest, Uploads, safe_name


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    (tmp_path / "uploads").mkdir()
    return Uploads(file_bytes_max=100, all_bytes_max=250, directory=tmp_path / "uploads")


def keep(uploads: Uploads, name: str, *pieces: bytes) -> Path:
    async def chunks() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return asyncio.run(uploads._keep(name, chunks()))


def refused(uploads: Uploads, *pieces: bytes) -> tuple[int, str]:
    with pytest.raises(RefusedRequest) as found:
        keep(uploads, "x.csv", *pieces)
    return found.value.status, found.value.code


def test_the_directory_is_its_users_alone_and_goes_with_all_in_it():
    uploads = Uploads()
    assert stat.S_IMODE(uploads.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(keep(uploads, "a.csv", b"1").stat().st_mode) == 0o600
    uploads.close()
    assert not uploads.directory.exists()


def test_namesakes_stand_beside_each_other(uploads):
    paths = [keep(uploads, "a.csv", each) for each in (b"1", b"2", b"3")]
    assert [path.name for path in paths] == ["a.csv", "a (2).csv", "a (3).csv"]
    assert [path.read_bytes() for path in paths] == [b"1", b"2", b"3"]


def test_upload_beyond_the_limit_leaves_no_file(uploads):
    assert keep(uploads, "fits.csv", b"x" * 60, b"x" * 40).stat().st_size == 100
    assert refused(uploads, b"x" * 60, b"x" * 41) == (413, "upload-too-large")
    assert [path.name for path in uploads.directory.iterdir()] == ["fits.csv"]


def test_all_files_together_have_a_bound_and_what_was_refused_does_not_count(uploads):
    keep(uploads, "a.csv", b"x" * 100)
    assert refused(uploads, b"x" * 101) == (413, "upload-too-large")
    keep(uploads, "b.csv", b"x" * 100)
    assert refused(uploads, b"x" * 51) == (507, "no-room")
    keep(uploads, "c.csv", b"x" * 50)


def test_missing_upload_directory_is_reported_and_causes_no_crash(uploads):
    uploads.close()
    assert refused(uploads, b"1") == (507, "no-room")


@pytest.mark.parametrize(
    ("said", "cleaned"),
    [
        ("orders.csv", "orders.csv"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\orders.csv", "orders.csv"),
        (".bashrc", "bashrc"),
        ("a\x1b[31mb\n.csv", "a_[31mb_.csv".replace("[", "_")),
        ("\u0440\u044f\u0434 1.csv", "\u0440\u044f\u0434 1.csv"),
        ("a\u202ecsv.exe", "a_csv.exe"),
        ("..", "upload"),
        ("", "upload"),
    ],
)
def test_a_name_is_cut_down_to_what_a_directory_and_a_terminal_bear(said, cleaned):
    assert safe_name(said) == cleaned


@given(st.text(max_size=300))
def test_any_name_is_one_name_of_bounded_length(said):
    name = safe_name(said)
    assert 0 < len(name) <= 100
    assert not name.startswith(".")
    assert name.isprintable()
    assert "/" not in name
