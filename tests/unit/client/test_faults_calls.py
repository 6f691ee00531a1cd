"""Fault rules over a broker's connection: the bytes of the request, and what a refusal becomes."""

import json
from typing import ClassVar

import pytest

from yak.client import faults
from yak.errors import Unreachable, UsageError, YakError
from yak.protocol.codec import decode_request, decode_response, encode_request, encode_response
from yak.protocol.request_header import read_request_header


class FakeConnection:
    """Decodes the request as a broker does, and answers with what is in `answers`."""

    answers: ClassVar[list[object]] = []
    requests: ClassVar[list[tuple[str, object]]] = []

    def __init__(self, address: str, *, timeout_s: float) -> None:
        self.address = address

    def __enter__(self) -> "FakeConnection":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, api: tuple[int, int], fields: dict[str, object]) -> object:
        frame = encode_request(*api, 1, "test", fields)
        request = decode_request(*api, memoryview(frame), read_request_header(frame).body_offset)
        assert (request.request_principal, request.client_host_address) == (None, b"")
        name, _space, text = bytes(request.request_data).partition(b" ")
        assert name == b"yak.faults"
        self.requests.append((self.address, json.loads(text)))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        (response,) = encode_response(*api, 1, {"response_data": data, "error_code": 0})
        return decode_response(*api, bytes(response)[4:])


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> type[FakeConnection]:
    monkeypatch.setattr(faults, "RawConnection", FakeConnection)
    FakeConnection.answers, FakeConnection.requests = [], []
    return FakeConnection


def test_rules_are_listed_added_and_cleared(wire: type[FakeConnection]) -> None:
    rule = {"id": "a", "fault": "freeze_isr", "topic": "t" * 200}
    wire.answers = [{"result": "a"}, {"result": [rule]}, {"result": ["a"]}]
    faults.add_fault("b1:1", rule, timeout_s=1)
    assert faults.list_faults("b1:1", timeout_s=1) == [rule]
    assert faults.clear_faults("b1:1", timeout_s=1) == ["a"]
    assert wire.requests == [
        ("b1:1", {"do": "add", "rule": rule}),
        ("b1:1", {"do": "list"}),
        ("b1:1", {"do": "clear", "id": None}),
    ]


def test_refusal_is_raised_with_its_reason(wire: type[FakeConnection]) -> None:
    wire.answers = [{"error": {"code": "bad-fault", "message": "no api", "why": "closest", "try": ["x"]}}]
    with pytest.raises(UsageError, match="no api") as caught:
        faults.add_fault("b1:1", {}, timeout_s=1)
    assert (caught.value.code, caught.value.why, caught.value.try_) == ("bad-fault", "closest", ("x",))


@pytest.mark.parametrize("answer", [OSError("closed"), b"no json", b""])
def test_broker_that_does_not_answer_is_unreachable(wire: type[FakeConnection], answer: object) -> None:
    wire.answers = [answer]
    with pytest.raises(Unreachable, match="b1:1 did not answer about faults"):
        faults.list_faults("b1:1", timeout_s=1)


def test_rule_is_on_all_brokers_or_on_none(wire: type[FakeConnection]) -> None:
    refusal = {"error": {"code": "faults-off", "message": "off", "why": "", "try": []}}
    wire.answers = [{"result": "a"}, {"result": "a"}, refusal, OSError("gone"), {"result": ["a"]}]
    with pytest.raises(YakError, match="off"):
        faults.add_to_all(["b1:1", "b2:1", "b3:1"], {"id": "a"}, timeout_s=1)
    assert wire.requests[3:] == [("b1:1", {"do": "clear", "id": "a"}), ("b2:1", {"do": "clear", "id": "a"})]


def test_rule_is_cleared_from_the_broker_whose_answer_was_lost(wire: type[FakeConnection]) -> None:
    """That broker may have the rule."""
    wire.answers = [{"result": "a"}, OSError("timed out"), {"result": ["a"]}, {"result": ["a"]}]
    with pytest.raises(Unreachable, match="b2:1 did not answer"):
        faults.add_to_all(["b1:1", "b2:1", "b3:1"], {"id": "a"}, timeout_s=1)
    assert wire.requests[2:] == [("b1:1", {"do": "clear", "id": "a"}), ("b2:1", {"do": "clear", "id": "a"})]


def test_ids_differ() -> None:
    assert len({faults.new_rule_id() for _ in range(50)}) == 50
