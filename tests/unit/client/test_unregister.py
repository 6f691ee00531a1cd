"""UnregisterBroker by hand, against a broker that answers one request."""

import pytest
from fake_brokers import ask
from kio.schema.errors import ErrorCode

from tests.errors import raises_error
from yak.client.unregister import unregister_broker
from yak.errors import Unreachable, YakError


def unregister(code=ErrorCode.none, message=None):
    """Ask a broker that answers with this; what it was asked."""
    answer = {"error_code": code, "error_message": message}
    return ask(64, answer, lambda address: unregister_broker(address, 4, timeout_s=5))[0]


def test_unregister_request_to_the_broker_names_the_node():
    assert unregister().broker_id == 4


@pytest.mark.parametrize(
    ("code", "slug"),
    [
        (ErrorCode.invalid_request, "broker-alive"),
        (ErrorCode.broker_id_not_registered, "unknown-broker"),
        (ErrorCode.request_timed_out, "not-unregistered"),
    ],
)
def test_a_refusal_says_why(code, slug):
    with raises_error(YakError, slug) as caught:
        unregister(code, "in words")
    assert "in words" in caught.value.why


def test_unregister_without_an_answer_may_be_made_all_the_same():
    with raises_error(YakError, "timed-out", match=r"^unknown: broker 4 was unregistered or not"):
        ask(64, None, lambda address: unregister_broker(address, 4, timeout_s=5))


def test_unregister_without_a_broker_at_the_address_raises_unreachable():
    with pytest.raises(Unreachable):
        unregister_broker("127.0.0.1:1", 4, timeout_s=1)
