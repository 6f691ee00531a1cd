"""librdkafka's errors as the REST proxy's: the status tells a client whether to send the request again."""

import pytest
from confluent_kafka import KafkaError

from yak.server.http.consumers.failures import kafka_failure

LEADER_EPOCH_ERRORS = (KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH)


@pytest.mark.parametrize("code", LEADER_EPOCH_ERRORS)
def test_error_of_an_election_is_transient(code: int) -> None:
    problem = kafka_failure(KafkaError(code), "the offset of orders-0 is unavailable")
    assert (problem.status, problem.error, problem.more["error_code"]) == (503, "broker-unreachable", 50003)
    assert problem.message.startswith("the offset of orders-0 is unavailable: ")


def test_error_without_a_status_of_its_own_is_500() -> None:
    problem = kafka_failure(KafkaError(KafkaError.INVALID_REQUIRED_ACKS), "reading failed")
    assert (problem.status, problem.error, problem.more["error_code"]) == (500, "kafka-error", 50002)
