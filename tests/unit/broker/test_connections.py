"""Connections: how large a fetch answer may grow, and who is at the other end."""

import pytest

from yak.broker.connections import Connection
from yak.limits import FETCH_ANSWER_AIM_BYTES, FETCH_ANSWER_AIM_FAR_BYTES


@pytest.mark.parametrize(
    ("round_trip_ms", "aim_bytes"),
    [
        (0, FETCH_ANSWER_AIM_BYTES),
        (1, FETCH_ANSWER_AIM_BYTES),
        (5, 5 * FETCH_ANSWER_AIM_BYTES),
        (10_000, FETCH_ANSWER_AIM_FAR_BYTES),
    ],
)
def test_answers_grow_with_the_length_of_the_line(round_trip_ms, aim_bytes):
    assert Connection(1, "client:1", round_trip_ms).fetch_aim_bytes == aim_bytes


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("10.0.0.7:5123", "10.0.0.7"),
        ("[::1]:5123", "::1"),
        ("[::ffff:10.0.0.7]:5123", "10.0.0.7"),
        ("[0:0:0:0:0:0:0:1]:5123", "::1"),
        ("in-process", "in-process"),
    ],
)
def test_connection_host_is_the_address_without_port(peer, host):
    assert Connection(1, peer).host == host
