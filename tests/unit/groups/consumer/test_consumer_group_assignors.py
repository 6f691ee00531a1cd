import uuid
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.noted_calls import note_calls
from yak.groups.consumer.assignors import ASSIGNORS
from yak.groups.consumer.assignors.range_assignor import assign_ranges
from yak.groups.consumer.assignors.spec import AssignmentSpec, Subscriber, in_order, topics_alike
from yak.groups.consumer.assignors.uniform_assignor import _UniformAssignment, assign_uniformly
from yak.groups.consumer.partitions import NO_PARTITIONS, Partitions, flattened

T = [uuid.UUID(int=number) for number in range(1, 8)]


def spec_of(
    subscriptions: Mapping[str, set[int]],
    sizes: Mapping[int, int],
    targets: Mapping[str, Partitions] | None = None,
    static: Mapping[str, str] | None = None,
) -> AssignmentSpec:
    """Topics by number; `static` gives instance ids."""
    used = {number for numbers in subscriptions.values() for number in numbers}
    subscribers = in_order(
        Subscriber(
            member_id,
            frozenset(T[number] for number in numbers),
            (static or {}).get(member_id),
            (targets or {}).get(member_id, NO_PARTITIONS),
        )
        for member_id, numbers in subscriptions.items()
    )
    return AssignmentSpec(subscribers, {T[number]: sizes[number] for number in sorted(used)})


def numbers(partitions: Partitions) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        found.setdefault(T.index(topic_id), []).append(partition)
    return found


def loads(assigned: Mapping[str, Partitions]) -> list[int]:
    return sorted(len(partitions) for partitions in assigned.values())


SIZES = st.fixed_dictionaries({number: st.integers(0, 9) for number in range(5)})
MEMBERS = st.lists(st.text("abcdefgh", min_size=1, max_size=3), min_size=1, max_size=9, unique=True)


@st.composite
def specs(draw: st.DrawFn, *, same: bool = False) -> AssignmentSpec:
    """Any group: subscriptions alike or not, static members among them, and whatever they had before."""
    members, sizes = draw(MEMBERS), draw(SIZES)
    topics = st.sets(st.integers(0, 4), max_size=5)
    common = draw(topics)
    subscriptions = {member: common if same else draw(topics) for member in members}
    everything = sorted((T[number], partition) for number, size in sizes.items() for partition in range(size + 2))
    targets: dict[str, set[tuple[uuid.UUID, int]]] = {member: set() for member in members}
    for partition in everything:
        owner = draw(st.none() | st.sampled_from(members))
        if owner is not None:
            targets[owner].add(partition)
    static = {member: f"i{member}" for member in members if draw(st.booleans())}
    return spec_of(subscriptions, sizes, {name: frozenset(held) for name, held in targets.items()}, static)


def check_sound(spec: AssignmentSpec, assigned: Mapping[str, Partitions]) -> None:
    """Every partition of a topic with subscribers has one owner, who subscribes to it; nothing else is assigned."""
    count = Counter(partition for partitions in assigned.values() for partition in partitions)
    meant = {topic_id for subscriber in spec.subscribers for topic_id in subscriber.topic_ids}
    assert count == Counter(flattened((topic_id, range(spec.num_partitions[topic_id])) for topic_id in meant))
    for subscriber in spec.subscribers:
        assert {topic_id for topic_id, _ in assigned[subscriber.member_id]} <= subscriber.topic_ids
    assert assigned.keys() == {subscriber.member_id for subscriber in spec.subscribers}


@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=specs())
def test_every_partition_has_one_owner_that_subscribes_to_it(name: str, spec: AssignmentSpec) -> None:
    check_sound(spec, ASSIGNORS[name](spec))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=specs())
def test_a_second_time_nothing_moves(name: str, spec: AssignmentSpec) -> None:
    once = ASSIGNORS[name](spec)
    assert ASSIGNORS[name](having(spec, once)) == once


@given(specs(same=True))
def test_uniform_is_even_within_one(spec: AssignmentSpec) -> None:
    even = loads(assign_uniformly(spec))
    assert even[-1] - even[0] <= 1


@given(specs(same=True))
def test_uniform_moves_only_what_evenness_requires(spec: AssignmentSpec) -> None:
    """Each member keeps all that it may: the fewest moves for loads of `low` and `low + 1`."""
    assigned = assign_uniformly(spec)
    valid = {name: kept(spec, name) for name in assigned}
    total = sum(len(partitions) for partitions in assigned.values())
    low, longer = divmod(total, len(assigned))
    # As many of the fullest as can have one more keep it.
    allowed = sorted((len(held) for held in valid.values()), reverse=True)
    fewest = sum(max(0, held - low - (place < longer)) for place, held in enumerate(allowed))
    assert sum(len(valid[name] - assigned[name]) for name in assigned) == fewest


@given(specs())
def test_uniform_is_as_even_as_the_subscriptions_allow(spec: AssignmentSpec) -> None:
    """No chain of moves from a member leads to one who has two less (Harvey and others 2006)."""
    assigned = assign_uniformly(spec)
    topics_of = {subscriber.member_id: subscriber.topic_ids for subscriber in spec.subscribers}
    for start, partitions in assigned.items():
        reached, waiting = {start}, [start]
        while waiting:
            giver = waiting.pop()
            gives = {topic_id for topic_id, _ in assigned[giver]}
            for other, wanted in topics_of.items():
                if other not in reached and gives & wanted:
                    reached.add(other)
                    waiting.append(other)
        assert all(len(assigned[other]) >= len(partitions) - 1 for other in reached)


@given(specs(), st.randoms())
def test_the_order_of_members_does_not_matter(spec: AssignmentSpec, random: object) -> None:
    subscribers = list(spec.subscribers)
    random.shuffle(subscribers)  # type: ignore[attr-defined]
    shuffled = AssignmentSpec(in_order(subscribers), spec.num_partitions)
    for assign in ASSIGNORS.values():
        assert assign(shuffled) == assign(spec)


def having(spec: AssignmentSpec, targets: Mapping[str, Partitions]) -> AssignmentSpec:
    """The same group, with these targets."""
    return AssignmentSpec(
        tuple(
            Subscriber(one.member_id, one.topic_ids, one.instance_id, targets.get(one.member_id, NO_PARTITIONS))
            for one in spec.subscribers
        ),
        spec.num_partitions,
    )


def kept(spec: AssignmentSpec, member_id: str) -> Partitions:
    """What a member had that it still may have."""
    (subscriber,) = (one for one in spec.subscribers if one.member_id == member_id)
    return frozenset(
        (topic_id, partition)
        for topic_id, partition in subscriber.target
        if topic_id in subscriber.topic_ids and partition < spec.num_partitions[topic_id]
    )


def test_uniform_spreads_each_topic() -> None:
    assigned = assign_uniformly(spec_of({"a": {0, 1}, "b": {0, 1}, "c": {0, 1}}, {0: 3, 1: 3}))
    assert {name: numbers(partitions) for name, partitions in assigned.items()} == {
        "a": {0: [0], 1: [0]},
        "b": {0: [1], 1: [1]},
        "c": {0: [2], 1: [2]},
    }


def test_uniform_gives_a_newcomer_its_share_and_leaves_the_rest() -> None:
    before = {"a": flattened([(T[0], range(5))]), "b": flattened([(T[0], range(5, 10))])}
    assigned = assign_uniformly(spec_of({key: {0} for key in "abc"}, {0: 10}, before))
    assert loads(assigned) == [3, 3, 4]
    assert assigned["a"] < before["a"]
    assert assigned["b"] < before["b"]


def test_uniform_moves_along_a_chain_where_one_move_cannot_help() -> None:
    # Only b means both topics: a can give to b, and b to c. Kafka's assignor would stop at 9, 10 and 11.
    before = {
        "a": flattened([(T[0], range(11))]),
        "b": flattened([(T[0], range(11, 16)), (T[1], range(5))]),
        "c": flattened([(T[1], range(5, 14))]),
    }
    assigned = assign_uniformly(spec_of({"a": {0}, "b": {0, 1}, "c": {1}}, {0: 16, 1: 14}, before))
    assert loads(assigned) == [10, 10, 10]


def test_range_assignor_splits_topics_of_one_size_alike() -> None:
    assigned = assign_ranges(spec_of({key: {0, 1, 2} for key in "ab"}, {0: 3, 1: 3, 2: 4}))
    assert numbers(assigned["a"]) == {0: [0, 1], 1: [0, 1], 2: [0, 1]}
    assert numbers(assigned["b"]) == {0: [2], 1: [2], 2: [2, 3]}


def test_range_uses_the_subscribers_of_each_topic() -> None:
    assigned = assign_ranges(spec_of({"a": {0, 1}, "b": {0}, "c": {1}}, {0: 3, 1: 2}))
    assert numbers(assigned["a"]) == {0: [0, 1], 1: [0]}
    assert numbers(assigned["b"]) == {0: [2]}
    assert numbers(assigned["c"]) == {1: [1]}


def test_range_gives_a_static_member_the_same_under_any_member_id() -> None:
    first = assign_ranges(spec_of({"x": {0}, "y": {0}}, {0: 5}, static={"x": "i1", "y": "i2"}))
    second = assign_ranges(spec_of({"z": {0}, "y": {0}}, {0: 5}, static={"z": "i1", "y": "i2"}))
    assert first["x"] == second["z"] == flattened([(T[0], range(3))])
    # A member without an instance id comes after them, whatever its member id.
    third = assign_ranges(spec_of({"z": {0}, "y": {0}, "a": {0}}, {0: 5}, static={"z": "i1", "y": "i2"}))
    assert third["a"] == flattened([(T[0], [4])])


def test_more_members_than_partitions() -> None:
    for assign in ASSIGNORS.values():
        assert loads(assign(spec_of({key: {0} for key in "abcd"}, {0: 2}))) == [0, 0, 1, 1]


def test_uniform_evens_out_members_with_the_same_topics_without_a_search(monkeypatch) -> None:
    """A search for each partition that moves would visit all topics and members: seconds with 5,000 topics."""
    searched = note_calls(monkeypatch, _UniformAssignment, "_reach")
    before = {"a": flattened((topic_id, range(3)) for topic_id in T)}
    subscription = set(range(len(T)))
    assigned = assign_uniformly(spec_of(dict.fromkeys("abc", subscription), dict.fromkeys(subscription, 3), before))
    assert loads(assigned) == [7, 7, 7]
    assert assigned["a"] < before["a"]
    assert not searched


def test_topics_with_the_same_subscribers_are_taken_together() -> None:
    spec = spec_of({"a": {0, 1, 2, 3, 4}, "b": {2, 3, 4, 5, 6}}, dict.fromkeys(range(7), 1))
    found = {tuple(subscribers): topic_ids for subscribers, topic_ids in topics_alike(spec)}
    assert found == {(0,): T[0:2], (0, 1): T[2:5], (1,): T[5:7]}


class CountedId(uuid.UUID):
    """A topic id that counts its hashes."""

    hashes = 0

    def __hash__(self) -> int:
        CountedId.hashes += 1
        return super().__hash__()


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
def test_assignors_hash_each_topic_as_often_for_many_members_as_for_few(assign) -> None:
    topic_ids = [CountedId(int=number) for number in range(1, 101)]
    common = frozenset(topic_ids)
    hashes = []
    for members in (2, 50):
        subscribers = in_order(Subscriber(f"m{number}", common) for number in range(members))
        spec = AssignmentSpec(subscribers, dict.fromkeys(topic_ids, 1))
        CountedId.hashes = 0
        assert sum(loads(assign(spec))) == 100
        hashes.append(CountedId.hashes)
    few, many = hashes
    assert many == few
