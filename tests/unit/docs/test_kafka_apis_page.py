"""docs/kafka-apis.md says what the broker's table says."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from yak.broker.apis import TABLE
from yak.protocol.schemas import versions_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_kafka_apis", ROOT / "docs" / "generate_kafka_apis.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(generator: ModuleType) -> None:
    assert generator.PAGE.read_text() == generator.page(), "run: .venv/bin/python docs/generate_kafka_apis.py"


def test_names_are_kafkas(generator: ModuleType) -> None:
    assert {key: api.NAME for key, api in TABLE.items()} == {key: generator.kafka_name(key) for key in TABLE}


def test_every_key_of_kafka_4_4_is_on_the_page(generator: ModuleType) -> None:
    text = generator.page()
    removed = {4, 5, 6, 7}  # LeaderAndIsr and its like, which Kafka 4 removed
    assert [
        key for key in range(95) if key not in removed and f"| {key} | " not in text and f"({key})" not in text
    ] == []


def test_no_version_is_served_that_kafka_does_not_have() -> None:
    assert [api.NAME for key, api in TABLE.items() if not set(api.VERSIONS) <= set(versions_of(key))] == []


def test_a_version_that_kafka_has_and_the_broker_lacks_is_explained() -> None:
    short = [api for key, api in TABLE.items() if api.VERSIONS[-1] < versions_of(key)[-1]]
    assert [
        api.NAME
        for api in short
        if not any("version" in said or f"v{api.VERSIONS[-1] + 1}" in said for said in api.ABSENT)
    ] == []
