"""What a test's cluster is made of: the configs it gets, and numbers that cannot be."""

import pytest

from yak.config.broker_config_table import BROKER_CONFIGS
from yak.config.broker_configs import BrokerConfig
from yak.testing.shape import BROKERS_MAX, TEST_CONFIGS, ClusterShape


def given(shape: ClusterShape) -> dict[str, str]:
    return dict(pair.partition("=")[::2] for pair in shape.broker_configs())


def test_configs_that_have_an_effect_are_set_and_the_others_left_to_yak() -> None:
    configs = given(ClusterShape.of())
    assert configs["num.partitions"] == "1"
    assert configs["auto.leader.rebalance.enable"] == "false"
    assert {name for name in TEST_CONFIGS if BROKER_CONFIGS[name].has_effect} <= set(configs)
    assert all(BROKER_CONFIGS[name].has_effect for name in configs)


@pytest.mark.parametrize("brokers", [1, 2, 3])
def test_a_broker_takes_them_all(brokers: int) -> None:
    assert BrokerConfig.from_settings(given(ClusterShape.of(brokers))).num_partitions == 1


def test_configs_of_a_test_take_precedence_and_are_written_as_kafka_writes_them() -> None:
    configs = given(ClusterShape.of(1, {"num.partitions": 6, "auto.create.topics.enable": False}))
    assert (configs["num.partitions"], configs["auto.create.topics.enable"]) == ("6", "false")


def test_the_order_of_configs_makes_no_other_shape() -> None:
    one = ClusterShape.of(3, {"num.partitions": 6, "fetch.max.bytes": 2048})
    other = ClusterShape.of(3, {"fetch.max.bytes": "2048", "num.partitions": "6"})
    assert one == other
    assert one != ClusterShape.of(3)
    assert one != ClusterShape.of(1, dict(one.configs))


@pytest.mark.parametrize("brokers", [0, -1, BROKERS_MAX + 1, True, "3", 1.0, None])
def test_a_number_of_brokers_that_cannot_be_is_refused(brokers: object) -> None:
    with pytest.raises(ValueError, match="1 to 32"):
        ClusterShape.of(brokers)  # type: ignore[arg-type]
