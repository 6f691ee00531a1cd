"""What members say in Kafka's consumer format, and errors about groups in words."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from yak.client.groups.descriptions import active_group, unknown_group
from yak.client.metadata import Broker
from yak.groups.classic.members import assigned_partitions
from yak.ids import TopicPartition
from yak.view.groups import Member

NODE = Broker(2, "127.0.0.1", 9093)


def encoded(assigned, version=1):
    """Kafka's ConsumerProtocolAssignment."""
    body = struct.pack(">hi", version, len(assigned))
    for topic, numbers in assigned.items():
        name = topic.encode()
        body += struct.pack(">h", len(name)) + name + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return body + struct.pack(">i", -1)


@given(st.dictionaries(st.text(max_size=20), st.lists(st.integers(0, 2**31 - 1), max_size=5, unique=True), max_size=4))
def test_an_assignment_is_read_as_it_was_written(assigned):
    expected = sorted(TopicPartition(topic, number) for topic, numbers in assigned.items() for number in numbers)
    assert assigned_partitions(encoded(assigned)) == tuple(expected)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_assignment_are_unknown_and_no_error(data):
    found = assigned_partitions(data)
    assert found is None or all(isinstance(each, TopicPartition) for each in found)


def test_a_member_without_bytes_has_nothing_and_one_with_wrong_ones_is_unknown():
    assert assigned_partitions(b"") == ()
    assert assigned_partitions(encoded({"orders": [1]})[:-8]) is None


def test_an_unknown_group_gets_the_closest_name():
    assert unknown_group("audti", ["audit", "billing"]).why == 'closest: "audit"'
    assert unknown_group("audit", ["audit"]).why == "no group has a name like it"
    assert "broker 2, which did not answer" in unknown_group("audit", [], {NODE: "refused"}).why


def test_group_that_a_silent_broker_may_have_is_not_called_unknown():
    error = unknown_group("audit", ["audti"], {NODE: "timed out"})
    assert (error.code, error.exit_code, error.message) == ("unreachable", 3, 'group "audit" was not found')


def test_an_active_group_names_its_first_members():
    members = tuple(Member(f"m{n}", f"app-{n}", f"/10.0.0.{n}") for n in range(5))
    error = active_group("audit", members, "not moved")
    assert error.why == "5 members are connected: app-0 at 10.0.0.0, app-1 at 10.0.0.1, app-2 at 10.0.0.2 and 2 more"
    assert "1 member is" in active_group("a", members[:1], "x").why
