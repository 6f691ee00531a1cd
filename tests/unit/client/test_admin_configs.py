"""Configs that a broker does not take."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from yak.client.admin import Admin
from yak.errors import YakError


class Client:
    def __init__(self, code):
        self.refused = Future()
        self.refused.set_exception(KafkaException(KafkaError(code, "Invalid value x for config log.retention.ms")))

    def incremental_alter_configs(self, resources, **_options):
        return dict.fromkeys(resources, self.refused)


@pytest.mark.parametrize("code", [KafkaError.INVALID_REQUEST, KafkaError.INVALID_CONFIG])
def test_a_config_that_a_broker_refuses_is_a_bad_config_for_either_error_code(code):
    # a broker answers INVALID_REQUEST for a bad value of its own configs, and INVALID_CONFIG for one of a topic
    admin = Admin.__new__(Admin)
    admin.timeout_s, admin._client = 5.0, Client(code)
    with pytest.raises(YakError, match='configs of broker "1" were not changed') as refused:
        admin.alter_configs("broker", "1", {"log.retention.ms": "x"})
    assert (refused.value.code, refused.value.try_) == ("bad-config", ("yak help bad-config",))
    assert "log.retention.ms" in refused.value.why
