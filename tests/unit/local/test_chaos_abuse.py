"""`yak chaos abuse`: attacks are real requests, the verdict follows the healthy client, and other machines are refused."""

import contextlib
from typing import Any

import pytest

from yak.client.bench.load import ClientResult, Load
from yak.client.bench.result import Result
from yak.errors import UsageError
from yak.local.chaos.abuse import refuse_remote, row_of
from yak.local.chaos.attacks import ATTACKS, Attack, Target, chosen
from yak.protocol.codec import decode_request
from yak.protocol.request_header import read_request_header

TARGET = Target("127.0.0.1:1", "127.0.0.1:2", "plain", "packed")
FRAMES = [attack for attack in ATTACKS if attack.name not in ("json-keys", "large-frames", "elements")]


class FakeLink:
    """Notes what is sent."""

    def __init__(self) -> None:
        self.sent = bytearray()

    def send(self, data: bytes) -> None:
        self.sent += data

    def receive(self, answers: int = 1) -> None: ...


@pytest.mark.parametrize("attack", FRAMES, ids=lambda attack: attack.name)
def test_attack_sends_whole_requests_that_a_broker_decodes(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yak.local.chaos.attacks.time.sleep", lambda _seconds: None)
    link: Any = FakeLink()
    act = attack.prepare(TARGET)
    with contextlib.suppress(ConnectionResetError):
        act(link)
    length = int.from_bytes(link.sent[:4], "big")
    frame = memoryview(bytes(link.sent[4 : 4 + length]))
    assert len(frame) == length
    header = read_request_header(frame)
    decode_request(header.api_key, header.api_version, frame, header.body_offset)


def result(latencies_ms: list[float], errors: int = 0) -> Result:
    client = ClientResult(0, records=len(latencies_ms), errors=errors, first_error="lost" if errors else "")
    client.ended_s = 1.0
    for each in latencies_ms:
        client.latency.record(int(each * 1e6))
    return Result(Load("e2e", "", "t"), [client])


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (result([1.0] * 99 + [300.0]), ""),
        (result([1.0] * 90 + [300.0] * 10), "p99 is 300"),
        (result([1.0] * 100, errors=1), "lost"),
        (result([]), "no record came back"),
        (None, "the broker ended"),
    ],
)
def test_result_follows_the_p99_and_the_records_of_the_healthy_client(found: Result | None, reason: str) -> None:
    row = row_of("a", "words", found, "the broker ended" if found is None else "", 3, (1, 2), 50.0)
    assert row.holds is not bool(reason)
    assert reason in row.reason


def test_attack_that_made_no_request_proves_nothing() -> None:
    row = row_of("regex", "words", result([1.0]), "", 0, (1, 2), 50.0)
    assert not row.holds
    assert row.reason == "the attacker made no request, or did not end in time"
    assert row_of("none", "no attack", result([1.0]), "", 0, (1, 2), 50.0).holds


@pytest.mark.parametrize("address", ["kafka.example:9092", "10.0.0.1:9092", "127.0.0.1:9092,10.0.0.1:9092"])
def test_attack_on_another_machine_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="not an address of this machine"):
        refuse_remote(address)
    refuse_remote("127.0.0.1:9092", "localhost:8080", "[::1]:9092", "")


def test_unknown_attack_is_refused_and_all_leaves_out_what_needs_http() -> None:
    with pytest.raises(UsageError, match="no attack"):
        chosen("earthquake", has_http=True)
    assert chosen("all", has_http=True) == ATTACKS
    assert "json-keys" not in [attack.name for attack in chosen("all", has_http=False)]
