import itertools

import pytest

from yak.errors import ErrorCode, PeerError
from yak.protocol.topic_names import find_collision, is_internal, refuse_collision, validate_topic_name


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_a_legal_name_passes(name):
    validate_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a/b", "a/../../etc", "a b", "é", "a\0", "a\n", "\u0661"])
def test_illegal_topic_name_is_refused_with_the_reason(name):
    with pytest.raises(PeerError) as caught:
        validate_topic_name(name)
    assert caught.value.error_code is ErrorCode.invalid_topic_exception
    assert caught.value.message.isprintable()


def test_dots_and_underscores_collide():
    assert find_collision("a.b", ["x", "a_b"]) == "a_b"
    assert find_collision("a_b", ["a.b"]) == "a.b"
    assert find_collision("a.b", ["a.b"]) is None
    assert find_collision("ab", ["a.b", "ab"]) is None
    with pytest.raises(PeerError, match="a_b"):
        refuse_collision("a.b", ["a_b"])
    refuse_collision("a.c", ["a_b"])


@pytest.mark.parametrize("count", [0, 100])
@pytest.mark.parametrize("name", ["a.b_c", ".a__b.", "_"])
def test_every_other_spelling_of_a_name_collides(name, count):
    others = {f"x{number}" for number in range(count)}
    spellings = {"".join(each) for each in itertools.product(*("._" if letter in "._" else letter for letter in name))}
    assert len(spellings) > 1
    for other in spellings - {name}:
        assert find_collision(name, [*others, other, name]) == other
    assert find_collision(name, [*others, name, f"{name}_"]) is None


class Unread(dict[str, None]):
    def __iter__(self):
        pytest.fail("all topics are read")


def test_topic_name_collision_is_found_by_lookup_among_many_topics():
    topics = Unread.fromkeys([f"topic.{number}" for number in range(1000)])
    assert find_collision("topic_7", topics) == "topic.7"
    assert find_collision("other_7", topics) is None
    assert find_collision("._" * 100, {"a": None}) is None


def test_internal_topics_are_known():
    assert is_internal("__consumer_offsets")
    assert not is_internal("orders")
