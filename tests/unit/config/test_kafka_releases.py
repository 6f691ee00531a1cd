"""The table of Kafka's releases: as real brokers answered, and complete for the APIs that YAK serves."""

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from yak.broker.apis import TABLE
from yak.broker.apis.quorum import BETWEEN_BROKERS
from yak.config.broker_configs import BrokerConfig
from yak.config.kafka_releases import RELEASES, max_versions
from yak.errors import UsageError

ONLY_WITH_KRAFT = {55, 64, 74, 75, 80, 81}
"""DescribeQuorum, UnregisterBroker and others: kafka-python's brokers of 3.x ran with ZooKeeper."""


def recorded(release: str) -> dict[int, int]:
    """What kafka-python recorded of a real broker's ApiVersions answer."""
    major, minor = map(int, release.split("."))
    return {key: highest for key, (_, highest) in BROKER_API_VERSIONS[major, minor].items()}


@pytest.mark.parametrize("release", [each for each in RELEASES if each != "4.4"])  # newer than kafka-python's record
def test_max_versions_of_a_release_are_those_of_a_real_broker(release: str) -> None:
    answered = recorded(release)
    ours = {
        key: highest for key, highest in max_versions(release).items() if key in answered or key not in ONLY_WITH_KRAFT
    }
    assert ours == {key: highest for key, highest in answered.items() if key in TABLE and key not in BETWEEN_BROKERS}


def test_releases_are_in_order_and_an_unknown_one_is_an_error() -> None:
    assert sorted(RELEASES, key=lambda each: tuple(map(int, each.split(".")))) == list(RELEASES)
    with pytest.raises(ValueError, match="not in"):
        max_versions("5.0")


def test_every_api_for_clients_is_in_the_newest_release() -> None:
    assert set(max_versions(RELEASES[-1])) == set(TABLE) - BETWEEN_BROKERS


@pytest.mark.parametrize("given", ["5.0", "2", "", "2.8.1", "v2.8"])
def test_a_config_of_an_unknown_release_names_the_known_ones(given: str) -> None:
    with pytest.raises(UsageError) as refused:
        BrokerConfig.from_settings({"yak.as.kafka": given})
    assert refused.value.code == "bad-config"
    assert "2.0, 2.1" in str(refused.value.why)


def test_config_takes_a_known_release_and_is_empty_by_default() -> None:
    assert BrokerConfig.from_settings({"yak.as.kafka": "2.8"}).yak_as_kafka == "2.8"
    assert BrokerConfig.from_settings({}).yak_as_kafka is None
