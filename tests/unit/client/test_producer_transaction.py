"""A producer's transaction: what it makes of librdkafka's errors, without a broker."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.errors import raises_error
from yak.client.produce import ProducerTransaction, transaction_settings
from yak.errors import YakError


class Producer:
    """Raises the errors of `plan[method]`, one a call, then succeeds."""

    def __init__(self, **plan):
        self.plan = plan
        self.calls = []

    def __getattr__(self, name):
        def call(*_):
            self.calls.append(name)
            errors = self.plan.get(name, [])
            if errors:
                raise KafkaException(errors.pop(0))

        return call


def error(code, *, retriable=False, must_abort=False):
    return KafkaError(code, retriable=retriable, txn_requires_abort=must_abort)


def test_commit_is_retried_after_a_transient_error():
    producer = Producer(commit_transaction=[error(KafkaError._TIMED_OUT, retriable=True)])
    ProducerTransaction(producer, timeout_s=5).commit()
    assert producer.calls == ["init_transactions", "begin_transaction", "commit_transaction", "commit_transaction"]


def test_commit_that_must_abort_aborts_and_says_so():
    producer = Producer(commit_transaction=[error(KafkaError.INVALID_TXN_STATE, must_abort=True)])
    with raises_error(YakError, "transaction-aborted") as raised:
        ProducerTransaction(producer, timeout_s=5).commit()
    assert "INVALID_TXN_STATE" in raised.value.why
    assert producer.calls[-2:] == ["purge", "abort_transaction"]


def test_commit_without_an_answer_leaves_the_outcome_open():
    producer = Producer(commit_transaction=[error(KafkaError._TIMED_OUT, retriable=True)] * 3)
    transaction = ProducerTransaction(producer, timeout_s=0)
    with raises_error(YakError, "timed-out", match="may be committed or not"):
        transaction.commit()
    assert "abort_transaction" not in producer.calls


@pytest.mark.parametrize("method", ["init_transactions", "commit_transaction", "abort_transaction"])
def test_fenced_producer_is_named(method):
    def run():
        transaction = ProducerTransaction(Producer(**{method: [error(KafkaError._FENCED)]}), timeout_s=5)
        (transaction.abort if method == "abort_transaction" else transaction.commit)()

    with raises_error(YakError, "producer-fenced"):
        run()


def test_transactional_id_is_the_given_id_or_a_newly_generated_id():
    assert transaction_settings("me")["transactional.id"] == "me"
    first, second = (transaction_settings(None)["transactional.id"] for _ in range(2))
    assert first.startswith("yak-produce-")
    assert first != second
