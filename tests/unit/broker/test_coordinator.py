"""The coordinator of groups in one broker: every version of its APIs, its records, its clock, and its comings and goings."""

import dataclasses

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker import group_requests as ask
from tests.unit.broker.raw_connection import RawConnection
from tests.unit.broker.replicated import add_broker, set_partition
from tests.unit.broker.requests import restart
from yak.cluster.image import Delta
from yak.core.placement import partition_of
from yak.groups.offsets import OFFSETS_TOPIC, read_offset_key
from yak.groups.record import Record
from yak.ids import TopicPartition
from yak.partitions.metadata_loader import _Step
from yak.protocol.record_batch import iterate_headers
from yak.protocol.record_walk import walk_records
from yak.sim.request_fields import frame_of
from yak.sim.wire import read_answer

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
NONE = ErrorCode.none


@pytest.fixture
def rig() -> Rig:
    return make_rig()


def make_rig(**settings: str) -> Rig:
    """A broker with a topic `orders` of three partitions; a group's first rebalance is not delayed."""
    rig = Rig(settings=SETTINGS | {name.replace("_", "."): value for name, value in settings.items()})
    rig.create_topic("orders", partitions=3)
    assert ask.find(rig, "g").error_code == NONE
    return rig


def topic_id(rig: Rig):
    return rig.node.broker.image.topics["orders"].topic_id


# ------------------------------------------------------------------------------------------------------ every version


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_found_in_every_version(version: int) -> None:
    rig = Rig(settings=SETTINGS)
    answer = ask.find(rig, "g", version=version)
    assert (answer.error_code, answer.node_id) == (NONE, 1)
    topic = rig.node.broker.image.topics[OFFSETS_TOPIC]
    assert len(topic.partitions) == 1
    assert topic.configs["cleanup.policy"] == "compact"


def test_all_clients_that_wait_for_the_offsets_topic_are_answered_when_it_exists() -> None:
    rig = Rig(settings=SETTINGS)
    asked = [rig.begin(ask.FIND, 4, client=rig.new_client(), coordinator_keys=[f"g{number}"]) for number in range(5)]
    rig.run_for(500)
    assert [each.answer.coordinators[0].error_code for each in asked] == [NONE] * 5


@pytest.mark.parametrize("version", range(10))
def test_a_group_is_joined_in_every_version(rig: Rig, version: int) -> None:
    joined = ask.join(rig, version)
    assert joined.error_code == NONE
    assert joined.protocol_name == "range"
    assert [each.member_id for each in joined.members] == [joined.member_id] == [joined.leader]


@pytest.mark.parametrize("version", range(6))
def test_an_assignment_is_given_in_every_version(rig: Rig, version: int) -> None:
    answer = ask.sync(rig, ask.join(rig), b"mine", version=version)
    assert (answer.error_code, answer.assignment) == (NONE, b"mine")


@pytest.mark.parametrize("version", range(5))
def test_member_sends_heartbeats_in_every_version(rig: Rig, version: int) -> None:
    joined = ask.stable(rig)
    assert ask.heartbeat(rig, joined, version=version) == NONE
    assert ask.heartbeat(rig, joined, version=version, group="other") == ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves_in_every_version(rig: Rig, version: int) -> None:
    joined = ask.stable(rig)
    answer = ask.leave(rig, joined.member_id, version=version)
    assert answer.error_code == NONE
    if version >= 3:
        assert [each.error_code for each in answer.members] == [NONE]
    again = ask.leave(rig, joined.member_id, version=version)
    code = again.members[0].error_code if version >= 3 else again.error_code
    assert code == ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_in_every_version(rig: Rig, version: int) -> None:
    words = {"version": version, "topic_id": topic_id(rig), "metadata": f"v{version}"}
    assert ask.commit(rig, {0: 5, 2: 7}, **words) == [NONE, NONE]
    found = ask.fetch(rig, [0, 1, 2]).topics[0].partitions
    assert [each.committed_offset for each in found] == [5, -1, 7]
    assert [each.metadata for each in found] == [f"v{version}", "", f"v{version}"]


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_fetched_in_every_version(rig: Rig, version: int) -> None:
    ask.commit(rig, {1: 9}, metadata="why not")
    answer = ask.fetch(rig, [0, 1], version=version, topic_id=topic_id(rig))
    assert [(each.committed_offset, each.error_code) for each in answer.topics[0].partitions] == [(-1, 0), (9, 0)]
    assert [each.metadata for each in answer.topics[0].partitions] == ["", "why not"]
    if version >= 5:
        assert [each.committed_leader_epoch for each in answer.topics[0].partitions] == [-1, 3]
    if version >= 2:
        everything = ask.fetch(rig, None, version=version)
        assert [each.partition_index for each in everything.topics[0].partitions] == [1]


@pytest.mark.parametrize("version", range(1, 11))
def test_of_an_unknown_group_nothing_is_committed_and_that_is_no_error(rig: Rig, version: int) -> None:
    answer = ask.fetch(rig, [0], version=version, group="unheard", topic_id=topic_id(rig))
    assert (answer.topics[0].partitions[0].committed_offset, answer.topics[0].partitions[0].error_code) == (-1, 0)
    assert "unheard" not in [each.group_id for each in ask.list_groups(rig).groups]


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(rig: Rig, version: int) -> None:
    joined = ask.stable(rig)
    answer = ask.describe(rig, version=version)
    assert (answer.group_state, answer.protocol_type, answer.protocol_data) == ("Stable", "consumer", "range")
    assert [(each.member_id, each.member_assignment) for each in answer.members] == [(joined.member_id, b"a")]
    gone = ask.describe(rig, "gone", version=version)
    assert gone.group_state == "Dead"
    assert gone.error_code == (ErrorCode.group_id_not_found if version >= 6 else NONE)


def test_a_group_in_a_rebalance_is_described_with_the_assignments_of_its_last_generation(rig: Rig) -> None:
    # ClassicGroupMember.describeNoMetadata
    first = ask.stable(rig)
    others = [ask.begin_join(rig, 3, client=rig.new_client()) for _ in range(2)]
    rig.run_for(10)

    def described() -> tuple[str, list[bytes]]:
        answer = ask.describe(rig)
        assert (answer.protocol_data, {each.member_metadata for each in answer.members}) == ("", {b""})
        return answer.group_state, [each.member_assignment for each in answer.members]

    assert described() == ("PreparingRebalance", [b"a", b"", b""])
    assert ask.join(rig, member_id=first.member_id).generation_id == 2
    assert described() == ("CompletingRebalance", [b"a", b"", b""])
    ask.begin_join(rig, 3, client=rig.new_client())
    rig.run_for(10)
    # GroupMetadataManager.resetAndPropagateAssignmentWithError: the assignment of generation 2 never came
    assert described() == ("PreparingRebalance", [b"", b"", b"", b""])
    assert all(other.is_done for other in others)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(rig: Rig, version: int) -> None:
    ask.stable(rig)
    ask.commit(rig, {0: 1}, group="simple")
    answer = ask.list_groups(rig, version=version)
    assert [(each.group_id, each.protocol_type) for each in answer.groups] == [("g", "consumer"), ("simple", "")]
    if version >= 4:
        assert [each.group_id for each in ask.list_groups(rig, version=version, states=("stable",)).groups] == ["g"]
        assert [each.group_id for each in ask.list_groups(rig, version=version, states=(" empty ",)).groups] == [
            "simple"
        ]
    if version >= 5:
        assert ask.list_groups(rig, types=("share",)).groups == ()
        assert len(ask.list_groups(rig, types=("Classic",)).groups) == 2


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_in_every_version(rig: Rig, version: int) -> None:
    joined = ask.stable(rig)
    ask.commit(rig, {0: 1}, group="simple")
    answer = rig.ask(ask.DELETE, version, groups_names=["g", "simple", "gone", "g"])
    assert [(each.group_id, each.error_code) for each in answer.results] == [
        ("g", ErrorCode.non_empty_group),
        ("simple", NONE),
        ("gone", ErrorCode.group_id_not_found),
    ]
    ask.leave(rig, joined.member_id)
    assert rig.ask(ask.DELETE, version, groups_names=["g"]).results[0].error_code == NONE
    assert ask.list_groups(rig).groups == ()
    restart(rig)
    assert ask.list_groups(rig).groups == ()
    assert ask.committed(rig, [0], group="simple") == [-1]


# -------------------------------------------------------------------------------------------------------- who may what


@pytest.mark.parametrize(
    ("session_ms", "code"), [(0, 26), (5_999, 26), (6_000, 79), (1_800_000, 79), (1_800_001, 26), (2**31 - 1, 26)]
)
def test_a_session_is_neither_too_short_nor_too_long(rig: Rig, session_ms: int, code: int) -> None:
    assert rig.ask(ask.JOIN, 9, **ask.join_fields(9, session_ms=session_ms)).error_code == code


def test_join_with_a_client_id_that_no_record_can_hold_is_refused(rig: Rig) -> None:
    """32,767 bytes that are not UTF-8 take 98,301 with U+FFFD in their place: the record of the group ended the broker."""
    name, connection = "c" * 32_767, RawConnection(rig)
    frame = frame_of(ask.JOIN, 2, 1, ask.join_fields(2), name)
    connection.send(frame.replace(name.encode(), b"\xff" * len(name)))
    rig.run_for(100)
    (answer,) = connection.answers
    assert read_answer(ask.JOIN, 2, answer)[1].error_code == ErrorCode.invalid_request
    assert list(ask.list_groups(rig).groups) == []


def test_group_of_the_largest_configured_size_accepts_no_more_members() -> None:
    rig = make_rig(group_max_size="1")
    join = ask.join_fields(3)
    assert rig.ask(ask.JOIN, 3, **join).error_code == NONE
    assert rig.ask(ask.JOIN, 3, **join).error_code == ErrorCode.group_max_size_reached


# ------------------------------------------------------------------------------------------------------------- records


def test_a_coordinator_that_starts_knows_its_groups(rig: Rig) -> None:
    joined = ask.stable(rig)
    ask.commit(rig, {0: 4}, member_id=joined.member_id, generation=joined.generation_id)
    ask.commit(rig, {1: 5}, group="simple")
    for how in ({}, {"orderly": True}):
        rig.restart(**how)
        rig.run_for(100)
        assert ask.committed(rig, [0]) == [4]
        assert ask.committed(rig, [1], group="simple") == [5]
        assert ask.heartbeat(rig, joined) == NONE
        assert ask.describe(rig).group_state == "Stable"


def test_the_records_are_keyed_as_kafkas(rig: Rig) -> None:
    ask.commit(rig, {2: 4})
    (record,) = walk_records(bytes(rig.fetch(OFFSETS_TOPIC, 0).records))
    assert record.key is not None
    assert read_offset_key(record.key) == ("g", "orders", 2)


@pytest.mark.parametrize("codec", range(5))
def test_batches_of_a_coordinator_have_the_codec_of_its_config(codec: int) -> None:
    rig = make_rig(offsets_topic_compression_codec=str(codec))
    ask.commit(rig, {0: 1})
    partition = rig.node.broker.partitions[TopicPartition(OFFSETS_TOPIC, 0)]
    rig.node.broker.coordinator_partitions.append(partition, [Record(b"\0\1", b"\0\3")], (7, 0), codec)
    headers = [header for _, header in iterate_headers(bytes(rig.fetch(OFFSETS_TOPIC, 0).records))]
    assert {header.codec for header in headers} == {codec}
    assert [header.is_transactional for header in headers] == [False, True]
    restart(rig)
    assert ask.committed(rig, [0]) == [1], "the next coordinator reads them"


def test_records_of_strangers_are_left_alone(rig: Rig) -> None:
    ask.commit(rig, {0: 1})
    partition = rig.node.broker.partitions[TopicPartition(OFFSETS_TOPIC, 0)]
    rig.node.broker.coordinator_partitions.append(
        partition, [Record(b"\0\x63what", b"ever"), Record(b"", b""), Record(b"\0\1", b"\0\3")]
    )
    restart(rig)
    assert ask.committed(rig, [0]) == [1]


# -------------------------------------------------------------------------------------------------------------- the clock


def test_new_coordinator_starts_every_session_again(rig: Rig) -> None:
    joined = ask.stable(rig, session_ms=6_000)
    rig.run_for(5_000)
    restart(rig)
    rig.run_for(5_000)
    assert ask.heartbeat(rig, joined) == NONE
    rig.run_for(6_100)
    assert ask.describe(rig).group_state == "Empty"


def test_a_member_whose_client_dies_while_it_waits_holds_up_the_others_for_its_session(rig: Rig) -> None:
    first = ask.stable(rig, session_ms=6_000)
    doomed = rig.new_client()
    second = rig.ask(ask.JOIN, 9, client=doomed, **ask.join_fields(9, session_ms=6_000)).member_id
    waiting = ask.begin_join(rig, 9, "g", second, client=doomed, session_ms=6_000)
    rig.run_for(50)
    assert not waiting.is_done
    doomed.close()
    rig.run_for(4_000)
    assert ask.heartbeat(rig, first) == ErrorCode.rebalance_in_progress
    again = ask.begin_join(rig, 9, "g", first.member_id, session_ms=6_000)
    rig.run_for(1_500)
    assert not again.is_done
    rig.run_for(700)
    assert again.answer.error_code == NONE
    assert [each.member_id for each in again.answer.members] == [first.member_id]


def test_offsets_of_a_topic_that_a_restored_image_lacks_are_retained() -> None:
    rig = make_rig(offsets_retention_check_interval_ms="1000")
    ask.commit(rig, {0: 1, 2: 2})
    broker = rig.node.broker
    image, topic = broker.image, broker.image.topics["orders"]
    others = {name: each for name, each in image.topics.items() if name != "orders"}
    restored = dataclasses.replace(image, topics=others, incarnation_id="restored")
    step = _Step(restored, Delta(topics_removed=(("orders", topic.topic_id),)), [], {})
    broker.metadata_loader._act(step, {})
    rig.run_for(3_000)
    assert "orders" not in broker.image.topics
    assert ask.committed(rig, [0, 2]) == [1, 2]


# ------------------------------------------------------------------------------------------------------- with followers


def replicated(rig: Rig, leader: int = 1) -> None:
    """Give the topic of offsets a follower that never fetches, so that nothing is committed any more."""
    add_broker(rig, 2)
    set_partition(rig, OFFSETS_TOPIC, leader=leader, replicas=(1, 2), isr=(1, 2))


def test_no_answer_leaves_before_what_it_rests_on_is_committed() -> None:
    rig = make_rig(offsets_commit_timeout_ms="2000")
    ask.commit(rig, {0: 1})
    replicated(rig)
    waiting = ask.begin_commit(rig, {0: 2})
    other = rig.new_client()
    reading = rig.begin(ask.FETCH, 9, client=other, **ask.fetch_fields(9, [0]))
    unrelated = rig.begin(ask.FETCH, 9, client=rig.new_client(), **ask.fetch_fields(9, [0], group="other"))
    rig.run_for(1_000)
    assert unrelated.is_done
    assert not waiting.is_done
    assert not reading.is_done
    rig.run_for(1_100)
    assert waiting.answer.topics[0].partitions[0].error_code == ErrorCode.coordinator_not_available
    # consumers before 3.9 do not know the same code of a fetch (GroupCoordinatorService.handleOffsetFetchException)
    assert reading.answer.groups[0].error_code == ErrorCode.not_coordinator


def test_group_deletion_is_not_visible_before_it_is_committed() -> None:
    rig = make_rig(offsets_commit_timeout_ms="2000")
    ask.commit(rig, {0: 1})
    replicated(rig)
    deleting = rig.begin(ask.DELETE, 2, client=rig.new_client(), groups_names=["g"])
    rig.run_for(50)
    reading = rig.begin(ask.FETCH, 9, client=rig.new_client(), **ask.fetch_fields(9, [0]))
    rig.run_for(1_000)
    assert not deleting.is_done
    assert not reading.is_done, "another leader may still know the group"
    rig.run_for(1_200)
    assert reading.answer.groups[0].error_code == ErrorCode.not_coordinator


def test_a_log_that_was_cut_where_compaction_left_nothing_is_read_to_its_end(rig: Rig) -> None:
    ask.commit(rig, {0: 1})
    broker = rig.node.broker
    partition = broker.partitions[TopicPartition(OFFSETS_TOPIC, 0)]
    partition.log.log_end_offset += 10
    partition.log.roll(rig.world.now_ms)
    del broker.group_coordinator.runtime.coordinated[0]
    broker.group_coordinator.runtime.partition_changed(partition)
    partition.advance_high_watermark()
    ask.list_groups(rig)  # a step, whose effects include the reading that `look` asked for
    rig.run_for(100)
    assert ask.committed(rig, [0]) == [1]


def test_waiting_clients_get_not_coordinator_when_another_broker_becomes_leader(rig: Rig) -> None:
    first = ask.stable(rig)
    replicated(rig)
    waiting = ask.begin_commit(rig, {0: 2}, group="simple", client=rig.new_client())
    second = rig.new_client()
    member_id = rig.ask(ask.JOIN, 9, client=second, **ask.join_fields(9)).member_id
    joining = ask.begin_join(rig, 9, "g", member_id, client=second)
    rig.run_for(50)
    assert not waiting.is_done
    assert not joining.is_done
    set_partition(rig, OFFSETS_TOPIC, leader=2, replicas=(1, 2), isr=(1, 2))
    assert ask.heartbeat(rig, first) == ErrorCode.not_coordinator
    rig.run_for(50)
    assert waiting.answer.topics[0].partitions[0].error_code == ErrorCode.not_coordinator
    assert joining.answer.error_code == ErrorCode.not_coordinator
    assert ask.find(rig, "g").node_id == 2
    assert ask.list_groups(rig).groups == ()


def test_an_isr_that_is_too_small_refuses_the_commit_and_nothing_changes() -> None:
    rig = make_rig(min_insync_replicas="2")
    ask.commit(rig, {0: 1})
    add_broker(rig, 2)
    set_partition(rig, OFFSETS_TOPIC, leader=1, replicas=(1, 2), isr=(1,))
    assert ask.commit(rig, {0: 2}) == [ErrorCode.coordinator_not_available]
    assert ask.committed(rig, [0]) == [1]


def test_the_partition_of_a_group_is_what_kafkas_tools_expect() -> None:
    rig = Rig(settings={"group.initial.rebalance.delay.ms": "0"})
    rig.create_topic("orders")
    ask.find(rig, "my-group")
    ask.commit(rig, {0: 1}, group="my-group")
    index = partition_of("my-group", 50)
    assert rig.node.broker.partitions[TopicPartition(OFFSETS_TOPIC, index)].log_end_offset == 1


def test_a_coordinator_believes_no_damaged_commit(rig: Rig) -> None:
    assert ask.commit(rig, {0: 5}) == [NONE]
    disk, path = rig.node.disk, f"/data/{OFFSETS_TOPIC}-0/{0:020d}.log"
    whole = disk.peek(path, 0)
    rig.restart(orderly=True)
    position = len(whole) - 20
    disk.corrupt(path, position, whole[position] ^ 1)
    rig.restart()
    rig.run_for(2_000)
    assert any(notice.event == "coordinator-log-unreadable" for notice in rig.node.notices)
    assert ask.fetch(rig, [0]).error_code == ErrorCode.coordinator_load_in_progress
    disk.corrupt(path, position, whole[position])
    rig.run_for(5_000)
    assert ask.committed(rig, [0]) == [5]


@pytest.mark.parametrize("version", [0, 5])
def test_sync_group_at_a_loading_coordinator_makes_the_member_join_again(rig: Rig, version: int) -> None:
    """COORDINATOR_LOAD_IN_PROGRESS ends a Java consumer: "Unexpected error from SyncGroup". A heartbeat gets no error."""
    member = ask.stable(rig)
    (coordinated,) = rig.node.broker.group_coordinator.runtime.coordinated.values()
    coordinated.loader = object()
    assert ask.sync(rig, member, version=version).error_code == ErrorCode.rebalance_in_progress
    assert ask.heartbeat(rig, member) == NONE
    coordinated.loader = None
    assert ask.sync(rig, member, version=version).error_code == NONE
