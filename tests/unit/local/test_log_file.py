"""What is read of the end of a log."""

import pytest

from yak.local.log_file import last_line, read_end, size


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "broker.log"
    path.write_bytes(b"one\ntwo\n  three \n\n")
    return path


def test_log_is_read_from_an_offset_on_and_at_most_its_last_bytes(log):
    assert read_end(log) == "one\ntwo\n  three \n\n"
    assert read_end(log, 4) == "two\n  three \n\n"
    assert read_end(log, 4, bytes_max=3) == " \n\n"


def test_log_that_is_shorter_than_the_offset_was_begun_again(log):
    assert read_end(log, 1_000).startswith("one")


def test_log_that_is_missing_or_not_of_text_is_no_error(log):
    log.write_bytes(b"\xff\n")
    assert last_line(log) == "\ufffd"
    log.unlink()
    assert read_end(log) == last_line(log) == ""
    assert size(log) == 0


def test_last_line_is_the_last_one_with_text(log):
    assert last_line(log) == "three"
    assert last_line(log, 17) == ""
