"""How a broker's end before it is ready becomes the error it printed."""

import pytest

from yak.errors import StartRefused, Unreachable, UsageError, WaitTimeout, YakError
from yak.local.broker_process import BrokerSpec, StartingBroker, parse_error

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


FROZEN = "echo '12:00:00 error metadata-frozen code=NO_CLUSTER reason=\"the store is empty\"'"
FROZEN_JSON = """echo '{"level": "error", "event": "metadata-frozen", "code": "X", "reason": "the store is empty"}'"""
CHATTER = "while :; do echo 12:00:01 info peer-lost node=2; sleep 0.02; done"


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.setattr("yak.local.broker_process._FROZEN_CHECK_SECONDS", 0.01)
    monkeypatch.setattr("yak.local.broker_process._FROZEN_PATIENCE_SECONDS", 0.2)
    started = []

    def run(script: str) -> StartingBroker:
        monkeypatch.setattr("yak.local.broker_process.yak_argv", lambda *_words: ["/bin/sh", "-c", script])
        spec = BrokerSpec(1, "127.0.0.1", 0, str(tmp_path), "redis://h:1/0")
        started.append(StartingBroker(spec, log_path=str(tmp_path / "log"), ready_file=str(tmp_path / "ready")))
        return started[-1]

    yield run
    for broker in started:
        broker.abandon()


@pytest.mark.parametrize("frozen", [FROZEN, FROZEN_JSON])
def test_broker_that_is_frozen_and_logs_other_events_is_refused(start, frozen) -> None:
    """Only its last line was looked at: a start among peers that were gone waited for a minute."""
    with pytest.raises(StartRefused, match="does not hold its history") as refused:
        start(f"{frozen}; {CHATTER}").wait_ready()
    assert (refused.value.code, refused.value.why) == ("broker-frozen", "the store is empty")


def test_broker_that_is_no_more_frozen_is_waited_for(start) -> None:
    with pytest.raises(WaitTimeout, match="was not ready"):
        start(f"{FROZEN}; echo 12:00:01 info metadata-unfrozen metadata_offset=5; {CHATTER}").wait_ready(1.0)
