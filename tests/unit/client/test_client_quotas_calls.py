"""DescribeClientQuotas and AlterClientQuotas by hand, against a broker that answers one request."""

import pytest
from fake_brokers import ask
from kio.schema.errors import ErrorCode

from yak.client.quotas import EntityQuotas, address_of, alter_quotas, describe_quotas
from yak.errors import Unreachable, UsageError, YakError

ANN = (("user", "ann"), ("client-id", None))


def description(code=ErrorCode.none, message=None):
    entity = [{"entity_type": kind, "entity_name": name} for kind, name in reversed(ANN)]
    entry = {"entity": entity, "values": [{"key": "producer_byte_rate", "value": 1.0}]}
    return {"error_code": code, "error_message": message, "entries": None if code else [entry]}


def test_quota_entity_is_described_by_exact_match_and_all_entities_without_a_filter():
    request, found = ask(48, description(), lambda address: describe_quotas(address, ANN, timeout_s=5))
    assert [(part.entity_type, part.match_type, part.match) for part in request.components] == [
        ("user", 0, "ann"),
        ("client-id", 1, None),
    ]
    assert request.strict
    assert found == [EntityQuotas(ANN, {"producer_byte_rate": 1.0})]
    request, _found = ask(48, description(), lambda address: describe_quotas(address, None, timeout_s=5))
    assert (request.components, request.strict) == ((), False)


def alteration(code=ErrorCode.none, message=None):
    return {"entries": [{"error_code": code, "error_message": message, "entity": []}]}


def alter(address, changes, validate_only=False):
    return alter_quotas(address, ANN, changes, validate_only=validate_only, timeout_s=5)


def test_quotas_are_set_and_removed_in_one_request():
    changes = {"producer_byte_rate": 1.5, "request_percentage": None}
    request, _ = ask(49, alteration(), lambda address: alter(address, changes, validate_only=True))
    (entry,) = request.entries
    assert request.validate_only
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == list(ANN)
    assert [(op.key, op.value, op.remove) for op in entry.ops] == [
        ("producer_byte_rate", 1.5, False),
        ("request_percentage", 0.0, True),
    ]


@pytest.mark.parametrize(
    ("code", "kind"), [(ErrorCode.invalid_request, UsageError), (ErrorCode.policy_violation, YakError)]
)
def test_a_refusal_says_why(code, kind):
    for api_key, answer, call in (
        (48, description(code, "in words"), lambda address: describe_quotas(address, None, timeout_s=5)),
        (49, alteration(code, "in words"), lambda address: alter(address, {})),
    ):
        with pytest.raises(kind) as caught:
            ask(api_key, answer, call)
        assert (caught.value.code, caught.value.why) == ("quota-refused", "in words")


def test_quotas_without_the_right_to_read_them_are_not_authorized():
    answer = description(ErrorCode.cluster_authorization_failed, None)
    with pytest.raises(YakError) as caught:
        ask(48, answer, lambda address: describe_quotas(address, None, timeout_s=5))
    assert (caught.value.code, caught.value.why) == ("not-authorized", "cluster authorization failed")
    assert caught.value.kafka_code == 31
    assert caught.value.try_[0].startswith("yak acls list ")


def test_no_broker_is_unreachable():
    with pytest.raises(Unreachable):
        describe_quotas("127.0.0.1:1", None, timeout_s=1)


def test_host_is_resolved_to_its_ip():
    assert address_of("127.0.0.1") == "127.0.0.1"
    assert address_of("::1") == "::1"
    with pytest.raises(UsageError):
        address_of("no such host")


@pytest.mark.parametrize("answer", [alteration(ErrorCode.request_timed_out), None])
def test_a_change_of_quotas_without_a_clear_answer_may_be_made_all_the_same(answer):
    with pytest.raises(YakError, match=r"^unknown: the quotas were changed or not") as caught:
        ask(49, answer, lambda address: alter(address, {"producer_byte_rate": 1.0}))
    assert caught.value.code == "timed-out"
