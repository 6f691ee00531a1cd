from kio.schema.index import api_key_map, schema_name_map

from yak.protocol.schemas import KAFKA_4_4, load_request_schema, load_response_schema
from yak.protocol.versions import API_NAMES, FIRST_FLEXIBLE, NEVER_FLEXIBLE, decodable_range, is_decodable, is_flexible


def test_the_table_of_first_flexible_versions_is_kios():
    for key in API_NAMES:
        versions = decodable_range(key)
        for version in range(versions.minimum, versions.maximum + 1):
            assert is_flexible(key, version) == load_request_schema(key, version).__flexible__, (key, version)
            assert is_flexible(key, version) == load_response_schema(key, version).__flexible__, (key, version)


def test_removed_apis_and_unknown_keys_are_not_flexible():
    assert all(FIRST_FLEXIBLE[key] == NEVER_FLEXIBLE for key in (4, 5, 6, 7))
    assert not is_flexible(999, 12)


def test_a_version_from_the_future_has_the_flexible_header():
    assert is_flexible(18, 99)


def test_undecodable_version_is_detected_without_loading_a_schema():
    assert not is_decodable(0, 2)
    assert not is_decodable(999, 0)
    assert is_decodable(0, 3)


def test_versions_of_kafka_4_4_are_those_that_follow_kios():
    # once kio has them: delete yak/protocol/kafka_4_4.py, and load kio's classes again
    assert {key: max(schema_name_map[api_key_map[key]]) + 1 for key in KAFKA_4_4} == KAFKA_4_4
