"""Heads that are read strictly, however their bytes come."""

import itertools

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.server.http.connection import StrictConnection

LINE = b"POST /a HTTP/1.1\r\nHost: x\r\n"
WELL = {
    "no body": LINE + b"\r\n",
    "a body with any bytes": LINE + b"Content-Length: 8\r\n\r\n\r\n\n\r\r\n\n\n",
    "chunks": LINE + b"Transfer-Encoding: chunked\r\n\r\n3\r\n\n\r\n\r\n0\r\n\r\n",
    "two requests": (LINE + b"Content-Length: 2\r\n\r\n\n\n") * 2,
    "blank lines in front": b"\r\n" + LINE + b"\r\n" + b"\r\n\r\n" + LINE + b"Content-Length: 2\r\n\r\n\r\n" + b"\r\n",
    "an old one": b"GET / HTTP/1.0\r\n\r\n",
    "an upgrade to HTTP/2": LINE + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
}
WRONG = {
    "LF alone": (LINE + b"X: y\n\r\n", 400),
    "a blank line that is LF alone": (b"\n" + LINE + b"\r\n", 400),
    "a method in small letters": (b"get / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
    "LF LF": (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    "CR alone": (LINE + b"X: a\rb\r\n\r\n", 400),
    "a request behind one that is well": (
        LINE + b"Content-Length: 0\r\n\r\n" + b"GET / HTTP/1.1\nHost: x\r\n\r\n",
        400,
    ),
    "two lengths": (LINE + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "chunks in HTTP/1.0": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "a WebSocket": (LINE + b"Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n", 400),
    "too many headers": (LINE + b"a: b\r\n" * 200 + b"\r\n", 431),
    "a target that is too long": (b"GET /" + b"a" * 1100 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
}


def outcome(data: bytes, cuts: list[int]) -> list[object]:
    """What is read, pieces of bodies joined; answers are given at once, so that the next request may come."""
    connection = StrictConnection(1000)
    found: list[object] = []
    positions = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(positions):
        if start == end:
            continue
        connection.receive_data(data[start:end])
        while True:
            try:
                event = connection.next_event()
            except h11.RemoteProtocolError as error:
                return [*found, (error.error_status_hint, connection.explain(error.error_status_hint).error)]
            if event in (h11.NEED_DATA, h11.PAUSED):
                break
            if isinstance(event, h11.Request):
                found.append((event.method, event.target))
            elif isinstance(event, h11.Data):
                found[-1:] = (
                    [found[-1] + bytes(event.data)] if isinstance(found[-1], bytes) else [found[-1], bytes(event.data)]
                )
            elif isinstance(event, h11.EndOfMessage):
                connection.send(h11.Response(status_code=204, headers=[]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is h11.DONE and connection.their_state is h11.DONE:
                    connection.start_next_cycle()
    return found


cuts = st.lists(st.integers(0, 2000), max_size=8)


@pytest.mark.parametrize("name", WELL)
@given(cuts=cuts)
def test_valid_requests_are_read_however_their_bytes_are_split(name: str, cuts: list[int]) -> None:
    found = outcome(WELL[name], cuts)
    assert found == outcome(WELL[name], [])
    assert not any(isinstance(each, tuple) and isinstance(each[0], int) for each in found)


@pytest.mark.parametrize("name", WRONG)
@given(cuts=cuts)
def test_invalid_requests_are_refused_however_their_bytes_are_split(name: str, cuts: list[int]) -> None:
    data, status = WRONG[name]
    found = outcome(data, cuts)[-1]
    assert isinstance(found, tuple)
    assert found[0] == status


def test_bytes_after_a_carriage_return_decide() -> None:
    connection = StrictConnection(1000)
    connection.receive_data(b"GET / HTTP/1.1\r")
    assert connection.next_event() is h11.NEED_DATA
    assert connection.is_within_head
    connection.receive_data(b"\nHost: x\r\n\r\n")
    assert isinstance(connection.next_event(), h11.Request)
    assert not connection.is_within_head


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "before",
    [LINE, LINE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"],
    ids=["head", "trailer"],
)
def test_line_of_blanks_is_refused_at_once(before: bytes) -> None:
    """h11's own pattern tries the blanks in every combination: 16 KiB took half a second of the broker."""
    connection = StrictConnection(1_000_000)
    connection.receive_data(before + b"X:" + b" " * 500_000 + b"\0\r\n\r\n")
    with pytest.raises(h11.RemoteProtocolError, match="illegal header line"):
        list(iter(connection.next_event, h11.NEED_DATA))


def test_blanks_around_a_value_are_no_part_of_it() -> None:
    connection = StrictConnection(1000)
    connection.receive_data(LINE + b"X: \t a b\t \r\nY:\r\nZ: \r\n\r\n")
    request = connection.next_event()
    assert [value for name, value in request.headers if name in (b"x", b"y", b"z")] == [b"a b", b"", b""]
