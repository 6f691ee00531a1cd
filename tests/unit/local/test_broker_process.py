"""How a broker's end before it is ready becomes the error it printed."""

import pytest

from yak.errors import StartRefused, Unreachable, UsageError, YakError
from yak.local.broker_process import BrokerSpec, parse_error

TEXT = """12:00:00 info  starting
error[port-in-use]: cannot listen on 127.0.0.1:9092
  why:  pid 4242 listens there
  try:  yak serve --port 9093
        yak up --status
"""


@pytest.mark.parametrize(
    ("exit_code", "kind"), [(1, StartRefused), (2, UsageError), (3, Unreachable), (99, StartRefused)]
)
def test_a_three_part_error_is_raised_again_as_it_was(exit_code: int, kind: type[YakError]) -> None:
    error = parse_error(TEXT, exit_code)
    assert type(error) is kind
    assert error is not None
    assert (error.code, error.message) == ("port-in-use", "cannot listen on 127.0.0.1:9092")
    assert error.why == "pid 4242 listens there"
    assert error.try_ == ("yak serve --port 9093", "yak up --status")


def test_the_last_error_of_several_counts() -> None:
    error = parse_error(TEXT + "more log\nerror[data-dir-locked]: node 1 cannot open x\n  why:  held\n", 1)
    assert error is not None
    assert (error.code, error.why, error.try_) == ("data-dir-locked", "held", ())


def test_a_text_without_an_error_gives_none() -> None:
    assert parse_error("Traceback (most recent call last):\n  why: no\n", 1) is None
    assert parse_error("", 1) is None


def test_the_serve_arguments_say_all_that_the_spec_holds() -> None:
    spec = BrokerSpec(3, "127.0.0.1", 0, "/d", "redis://h:1/0", ("a=b", "c=d"), "follower")
    text = " ".join(spec.serve_arguments("/r"))
    assert text == (
        "serve --node-id 3 --host 127.0.0.1 --port 0 --role follower --data-dir /d --metadata redis"
        " --redis-url redis://h:1/0 --ready-file /r --no-http -c a=b -c c=d"
    )


def test_the_serve_arguments_say_where_to_answer_http() -> None:
    spec = BrokerSpec(1, "127.0.0.1", 9092, "/d", "redis://h:1/0", http_port=8080)
    text = " ".join(spec.serve_arguments("/r"))
    assert "--http-port 8080" in text
    assert "--no-http" not in text
