"""Bodies of /consumers: what they mean, and what is refused, with the REST proxy's codes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.server.http.fake_context import image_of
from yak.ids import TopicPartition
from yak.server.http.consumers import bodies
from yak.server.http.consumers.bodies import Settings, check_group, settings_of
from yak.server.http.problems import Problem

WAIT_MS_MAX = 300_000


def refused(function, *args) -> tuple[int, int, str]:
    """Status, code and slug of the problem that it raises."""
    with pytest.raises(Problem) as raised:
        function(*args)
    assert raised.value.message
    return raised.value.status, raised.value.more["error_code"], raised.value.error


def test_no_body_and_null_mean_the_defaults_of_the_proxy():
    assert settings_of(None, WAIT_MS_MAX) == Settings()
    assert settings_of({}, WAIT_MS_MAX) == Settings()
    assert settings_of(dict.fromkeys(("name", "format", "fetch.min.bytes"), None), WAIT_MS_MAX) == Settings()
    assert (Settings().data_format, Settings().offset_reset, Settings().auto_commit) == ("binary", "latest", True)


def test_every_setting_is_taken_also_as_a_string():
    body = {
        "name": "me",
        "format": "JSON",
        "auto.offset.reset": "earliest",
        "auto.commit.enable": "false",
        "fetch.min.bytes": "512",
        "consumer.request.timeout.ms": 3000.0,
        "isolation.level": "read_committed",
    }
    assert settings_of(body, WAIT_MS_MAX) == Settings("me", "json", "earliest", False, "read_committed", 512, 3000)
    assert settings_of(body | {"auto.commit.enable": False}, WAIT_MS_MAX).auto_commit is False


def test_old_names_are_known_and_id_wins_over_name():
    found = settings_of({"id": "a", "name": "b", "responseMinBytes": 7, "requestWaitMs": 8}, WAIT_MS_MAX)
    assert (found.name, found.min_bytes, found.wait_ms) == ("a", 7, 8)


def test_minus_one_byte_means_no_minimum():
    assert settings_of({"fetch.min.bytes": -1}, WAIT_MS_MAX).min_bytes is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ([], 422),
        ("x", 422),
        ({"maxWindowSize": 1}, 422),
        ({"format": "avro"}, 422),
        ({"format": 5}, 422),
        ({"name": 5}, 422),
        ({"name": ""}, 42204),
        ({"name": "a/b"}, 42204),
        ({"name": "a\0b"}, 42204),
        ({"name": "a\n"}, 42204),
        ({"name": "."}, 42204),
        ({"name": ".."}, 42204),
        ({"name": "n" * 256}, 42204),
        ({"auto.offset.reset": "newest"}, 42204),
        ({"auto.offset.reset": True}, 42204),
        ({"auto.commit.enable": "yes"}, 42204),
        ({"auto.commit.enable": 1}, 42204),
        ({"isolation.level": "serializable"}, 42204),
        ({"fetch.min.bytes": -2}, 42204),
        ({"fetch.min.bytes": 10_000_001}, 42204),
        ({"fetch.min.bytes": 1.5}, 42204),
        ({"fetch.min.bytes": True}, 42204),
        ({"fetch.min.bytes": "1e3"}, 42204),
        ({"consumer.request.timeout.ms": 0}, 42204),
        ({"consumer.request.timeout.ms": WAIT_MS_MAX + 1}, 42204),
        ({"consumer.request.timeout.ms": []}, 42204),
    ],
)
def test_settings_that_cannot_be_are_refused(body, code):
    assert refused(settings_of, body, WAIT_MS_MAX)[:2] == (422, code)


@pytest.mark.parametrize("group", ["", "g" * 256, "a\tb", "a\x7f", ".", ".."])
def test_groups_that_no_path_can_name_are_refused(group):
    assert refused(check_group, group)[:2] == (422, 42204)


def test_a_group_may_have_any_other_name():
    check_group("Gruppe 1: häufig?#%")


def test_a_subscription_names_topics_once_or_an_expression():
    assert bodies.subscription_of({"topics": ["b", "a", "b"]}) == (("b", "a"), None)
    assert bodies.subscription_of({"topic_pattern": "t-.*", "topics": None}) == ((), "t-.*")
    assert bodies.subscription_of({"topics": []}) == ((), None)


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"topic": ["a"]},
        {"topics": ["^a.*"]},
        {"topics": ["a"] * 1_001},
        {"topic_pattern": "("},
        {"topic_pattern": "(?=a)b"},
        {"topic_pattern": "x" * 1_001},
    ],
)
def test_subscriptions_that_make_no_sense_are_refused(body):
    assert refused(bodies.subscription_of, body)[:2] == (422, 422)


def test_topics_and_an_expression_at_once_are_a_conflict():
    assert refused(bodies.subscription_of, {"topics": ["a"], "topic_pattern": "b"})[:2] == (409, 40903)


def test_the_last_of_two_equal_partitions_counts():
    item = {"topic": "t", "partition": 1}
    assert bodies.partitions_of({"partitions": [item, item]}) == [TopicPartition("t", 1)]
    offsets = bodies.offsets_of({"offsets": [item | {"offset": 3}, item | {"offset": 5, "metadata": "m"}]})
    assert offsets == {TopicPartition("t", 1): bodies.Mark(5, "m")}


def test_no_offsets_mean_all_that_was_read():
    assert bodies.offsets_of(None) is bodies.offsets_of({}) is bodies.offsets_of({"offsets": None}) is None
    assert bodies.offsets_of({"offsets": []}) == {}


def test_positions_are_offsets_and_times_with_a_zone():
    found = bodies.positions_of(
        {
            "offsets": [{"topic": "t", "partition": 0, "offset": 7, "metadata": "m"}],
            "timestamps": [
                {"topic": "t", "partition": 1, "timestamp": "1970-01-01T00:00:01.5Z"},
                {"topic": "t", "partition": 2, "timestamp": "1970-01-01T02:00:00+02:00"},
                {"topic": "t", "partition": 3, "timestamp": "0001-01-01T00:00:00+14:00"},
            ],
        }
    )
    assert found.offsets == {TopicPartition("t", 0): 7}
    assert list(found.times_ms.values()) == [1500, 0, 0]


ITEM = {"topic": "t", "partition": 0}


@pytest.mark.parametrize(
    ("function", "body"),
    [
        (bodies.partitions_of, {}),
        (bodies.partitions_of, None),
        (bodies.partitions_of, {"partitions": [{"topic": "t", "partition": True}]}),
        (bodies.partitions_of, {"partitions": [ITEM | {"offset": 1}]}),
        (bodies.partitions_of, {"partitions": [ITEM] * 10_001}),
        (bodies.offsets_of, {"offsets": [ITEM | {"offset": 2**63 - 1}]}),
        (bodies.offsets_of, {"offsets": [ITEM | {"offset": 1, "metadata": "a\0b"}]}),
        (bodies.positions_of, {}),
        (bodies.positions_of, {"offsets": None}),
        (bodies.positions_of, {"timestamps": [ITEM | {"timestamp": 5}]}),
        (bodies.positions_of, {"timestamps": [ITEM | {"timestamp": "yesterday"}]}),
        (bodies.positions_of, {"timestamps": [ITEM | {"timestamp": "2026-01-31T12:00:00"}]}),
        (bodies.positions_of, {"timestamps": [ITEM | {"timestamp": "2026-13-31T12:00:00Z"}]}),
    ],
)
def test_invalid_positions_are_refused(function, body):
    assert refused(function, body)[:2] == (422, 422)


def test_topics_and_partitions_that_are_not_there_have_codes_of_their_own():
    image = image_of({"t": [1, 1]})
    bodies.require_known([TopicPartition("t", 1)], image)
    assert refused(bodies.require_known, [TopicPartition("t", 2)], image)[:2] == (404, 40402)
    assert refused(bodies.require_known, [TopicPartition("u", 0)], image)[:2] == (404, 40401)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["topics", "offsets", "partitions"]), inner)
    ),
)


def problem_of(function, body) -> Problem | None:
    try:
        function(body)
    except Problem as problem:
        return problem
    return None


@given(JSON)
def test_any_json_is_either_taken_or_refused_with_a_code(body):
    for function in (
        bodies.subscription_of,
        bodies.partitions_of,
        bodies.offsets_of,
        bodies.positions_of,
        lambda value: settings_of(value, WAIT_MS_MAX),
    ):
        problem = problem_of(function, body)
        if problem is not None:
            assert 400 <= problem.status < 500
            assert problem.more["error_code"]
            json.dumps(problem.as_json(), allow_nan=False)
