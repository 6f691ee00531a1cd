"""What a leader, a new leader and a follower say of their offsets, and what clients are shown of the others."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.replicated import add_broker, set_partition
from tests.unit.broker.requests import list_offset
from yak.cluster.records import BrokerState
from yak.ids import TopicPartition
from yak.sim.request_fields import fetch_fields
from yak.storage.reader import TimestampSearch

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
CLIENT, DEBUGGING, FOLLOWER = -1, -2, 2


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create_topic("orders")
    rig.produce("orders", [b"a", b"b", b"c"], timestamp_ms=1_000)
    add_broker(rig, 2)
    return rig


def list_offsets(rig, timestamp=LATEST, *, replica_id=CLIENT, version=7):
    answer = list_offset(rig, timestamp, version=version, replica_id=replica_id)
    return answer.error_code, answer.offset


def lead(rig, high_watermark, *, epoch_start=3):
    partition = set_partition(rig, "orders", leader=1, replicas=(1, 2), isr=(1, 2))
    partition.high_watermark, partition.epoch_start_offset = high_watermark, epoch_start
    return partition


def follow(rig, high_watermark):
    partition = set_partition(rig, "orders", leader=2, replicas=(2, 1), isr=(2, 1))
    partition.high_watermark = high_watermark
    return partition


def test_a_client_sees_what_is_committed_and_a_follower_the_whole_log(rig):
    lead(rig, 2, epoch_start=1)
    assert list_offsets(rig) == (0, 2)
    assert list_offsets(rig, replica_id=FOLLOWER) == (0, 3)
    assert list_offsets(rig, replica_id=DEBUGGING) == (0, 3)
    assert list_offsets(rig, 1_000) == (0, 0)
    assert list_offsets(rig, MAX_TIMESTAMP)[0] == 0


def test_a_time_beyond_what_is_committed_is_unknown_to_a_client(rig):
    rig.produce("orders", [b"d"], timestamp_ms=2_000)
    lead(rig, 3, epoch_start=3)
    assert list_offsets(rig, 2_000) == (0, -1)
    assert list_offsets(rig, 2_000, replica_id=DEBUGGING) == (0, 3)


@pytest.mark.parametrize(
    ("version", "code"), [(7, ErrorCode.offset_not_available), (5, ErrorCode.offset_not_available), (4, 5), (1, 5)]
)
def test_a_new_leader_that_does_not_know_the_end_says_so(rig, version, code):
    lead(rig, 2)
    assert list_offsets(rig, version=version) == (code, -1)
    assert list_offsets(rig, EARLIEST, version=version) == (0, 0)
    assert list_offsets(rig, 9_999, version=version) == (code, -1)
    assert list_offsets(rig, 1_000, version=version) == (0, 0)
    assert list_offsets(rig, replica_id=FOLLOWER, version=version) == (0, 3)


def test_search_by_time_that_outlives_its_log_or_leadership_finds_nothing_out(rig, monkeypatch):
    """The files of a log that is set aside are gone for the search, which passes them over."""
    lead(rig, 3, epoch_start=1)
    partition = rig.node.broker.partitions[TopicPartition("orders", 0)]
    log = partition.log

    def lose_log(search, disk):
        partition.log = None

    def lose_leadership(search, disk):
        follow(rig, 3)

    for search in (lose_log, lose_leadership):
        partition.log = log
        monkeypatch.setattr(TimestampSearch, "run", search)
        assert list_offsets(rig, 1_000) == (ErrorCode.not_leader_or_follower, -1)


def test_leader_returns_the_end_offset_once_its_own_epoch_begins_to_be_committed(rig):
    lead(rig, 3)
    assert list_offsets(rig) == (0, 3)


def test_only_a_debugging_consumer_may_list_offsets_of_a_follower(rig):
    follow(rig, 1)
    assert list_offsets(rig) == (ErrorCode.not_leader_or_follower, -1)
    assert list_offsets(rig, replica_id=FOLLOWER) == (ErrorCode.not_leader_or_follower, -1)
    assert list_offsets(rig, replica_id=DEBUGGING) == (0, 3)
    assert list_offsets(rig, EARLIEST, replica_id=DEBUGGING) == (0, 0)
    assert list_offsets(rig, 1_000, replica_id=DEBUGGING) == (0, 0)
    rig.node.broker.partitions.clear()
    assert list_offsets(rig, replica_id=DEBUGGING) == (ErrorCode.not_leader_or_follower, -1)


@pytest.mark.parametrize("replica_id", [CLIENT, DEBUGGING, FOLLOWER])
def test_end_offset_of_a_leader_epoch_is_returned_by_the_leader_only(rig, replica_id):
    asked = {"partition": 0, "leader_epoch": 0}
    topics = [{"topic": "orders", "partitions": [asked]}]

    def end():
        answer = rig.ask(23, 4, replica_id=replica_id, topics=topics).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert end() == (0, 0, 3)
    follow(rig, 3)
    assert end() == (ErrorCode.not_leader_or_follower, -1, -1)


def test_negative_leader_epoch_of_a_client_is_fenced_and_minus_one_is_none(rig):
    """Kafka's RequestUtils.getLeaderEpoch. In Fetch each negative epoch is none (FetchRequest.optionalEpoch)."""
    codes = []
    for epoch in (-1, -2):
        asked = {"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": epoch}
        listed = rig.ask(2, 7, replica_id=CLIENT, topics=[{"name": "orders", "partitions": [asked]}])
        asked = {"partition": 0, "current_leader_epoch": epoch, "leader_epoch": 0}
        ended = rig.ask(23, 4, replica_id=CLIENT, topics=[{"topic": "orders", "partitions": [asked]}])
        fields = fetch_fields("orders", 0)
        fields["topics"][0]["partitions"][0]["current_leader_epoch"] = epoch
        fetched = rig.ask(1, 12, **fields)
        answers = listed.topics[0], ended.topics[0], fetched.responses[0]
        codes.append([each.partitions[0].error_code for each in answers])
    fenced = ErrorCode.fenced_leader_epoch
    assert codes == [[0, 0, 0], [fenced, fenced, 0]]


@pytest.mark.parametrize(
    ("ahead", "code"),
    [(1, ErrorCode.unknown_leader_epoch), (-1, ErrorCode.fenced_leader_epoch), (0, ErrorCode.not_leader_or_follower)],
)
def test_follower_checks_a_clients_leader_epoch_before_it_names_the_leader(rig, ahead, code):
    """Kafka's Partition.getLocalLog, for ListOffsets, OffsetForLeaderEpoch and a Fetch of before KIP-392."""
    follow(rig, 3)
    epoch = rig.node.broker.partitions["orders", 0].leader_epoch + ahead
    asked = {"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": epoch}
    topics = [{"name": "orders", "partitions": [asked]}]
    listed = rig.ask(2, 7, replica_id=CLIENT, topics=topics)
    asked = {"partition": 0, "current_leader_epoch": epoch, "leader_epoch": 0}
    ended = rig.ask(23, 4, replica_id=CLIENT, topics=[{"topic": "orders", "partitions": [asked]}])
    fields = fetch_fields("orders", 0)
    del fields["rack_id"]
    asked = fields["topics"][0]["partitions"][0] | {"current_leader_epoch": epoch}
    del asked["last_fetched_epoch"]
    fetched = rig.ask(1, 10, **fields | {"topics": [{"topic": "orders", "partitions": [asked]}]})
    assert [
        listed.topics[0].partitions[0].error_code,
        ended.topics[0].partitions[0].error_code,
        fetched.responses[0].partitions[0].error_code,
    ] == [code] * 3


def test_a_followers_log_directory_shows_no_lag_below_its_own_watermark(rig):
    follow(rig, 2)
    [directory] = rig.ask(35, 4, topics=None).results
    assert directory.topics[0].partitions[0].offset_lag == 0


def describe(rig):
    answer = rig.ask(3, 12, topics=None, allow_auto_topic_creation=False)
    return [broker.node_id for broker in answer.brokers], answer.topics[0].partitions[0]


def test_a_broker_that_stops_is_alive_until_others_lead(rig):
    set_partition(rig, "orders", leader=2, replicas=(2, 1), isr=(2, 1))
    add_broker(rig, 2, state=BrokerState.STOPPING)
    brokers, partition = describe(rig)
    assert brokers == [1, 2]
    assert (partition.error_code, partition.leader_id, partition.offline_replicas) == (0, 2, ())


@pytest.mark.parametrize("state", [BrokerState.FENCED, BrokerState.CLOSED])
def test_fenced_or_closed_leader_is_reported_as_none_and_its_replica_as_offline(rig, state):
    set_partition(rig, "orders", leader=2, replicas=(2, 1), isr=(2, 1))
    add_broker(rig, 2, state=state)
    brokers, partition = describe(rig)
    assert brokers == [1]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.leader_not_available, -1)
    assert (partition.offline_replicas, partition.isr_nodes) == ((2,), (2, 1))
    page = rig.ask(75, 0, topics=[], response_partition_limit=10)
    row = page.topics[0].partitions[0]
    assert (row.leader_id, row.offline_replicas, row.eligible_leader_replicas) == (-1, (2,), ())
    assert row.error_code == 0, "as KRaftMetadataCache answers DescribeTopicPartitions, but not Metadata"
