import pytest

from yak.tui.web.server import font_size
from yak.tui.web.session import error_lines


@pytest.mark.parametrize(
    ("requested", "size"),
    [("20", 20), ("", 16), ("1", 6), ("999", 48), ("0x10", 16), ("-5", 16), ("\u0663", 16), ("9" * 9, 16)],
)
def test_a_font_has_a_size_that_can_be_read(requested, size):
    assert font_size(requested) == size


def test_an_error_is_cut_from_what_was_said_before_it_and_a_traceback_is_none():
    error = b"error[unreachable]: no broker answered\n  why:  connection refused\n  try:  yak up -d\n"
    assert error_lines(b"warning: slow\n" + error) == error.decode().rstrip()
    assert error_lines(b"Traceback (most recent call last):\n  File x\nValueError: y\n") == ""
    assert error_lines(b"\xff\xfe") == ""
