"""Writing through trouble: what is sent again, what is not, and that it is the same batch."""

from types import SimpleNamespace

import pytest
import trio
from trio.testing import MockClock

from tests.unit.server.http.fake_context import context_of, image_of
from tests.unit.server.http.rig import Acls
from yak.acls.bindings import Operation, ResourceType
from yak.errors import ErrorCode
from yak.ids import TopicPartition
from yak.protocol.record_batch import read_header
from yak.protocol.record_walk import walk_records
from yak.protocol.versions import INIT_PRODUCER_ID, PRODUCE
from yak.server.http.authentication import CALLER, Caller
from yak.server.http.problems import Problem
from yak.server.http.record_producer import PartitionQueue, ProducerIds, write

NO_IDS = Problem(503, "broker-unreachable", "the store is away")
NOT_ALLOWED = Problem(403, "not-allowed", "User:bob may not WRITE topic 't'")
ANN = Caller("User:ann", None, "10.0.0.9:4711")
LOST = Problem(503, "broker-unreachable", "closed in the middle")


def lane_of(count=3, partition=0, batch_bytes_max=10_000, value=b"v", topic="t"):
    queue = PartitionQueue(TopicPartition(topic, partition), batch_bytes_max=batch_bytes_max)
    for row in range(count):
        queue.add(row, b"k", value, (), 10 + len(value))
    return queue


class Leader:
    """Says `errors` in turn, then writes; remembers the batches."""

    def __init__(self, *errors, ids=True):
        self.errors = list(errors)
        self.batches = []
        self.end = 0
        self.ids = iter(range(100, 200)) if ids else None

    def __call__(self, api_key, fields, _node_id):
        if api_key == INIT_PRODUCER_ID:
            if self.ids is None:
                raise NO_IDS
            return SimpleNamespace(error_code=ErrorCode.none, producer_id=next(self.ids), producer_epoch=0)
        assert api_key == PRODUCE
        responses = [
            SimpleNamespace(
                name=topic["name"], partition_responses=[self._write(each) for each in topic["partition_data"]]
            )
            for topic in fields["topic_data"]
        ]
        return SimpleNamespace(responses=responses)

    def _write(self, data):
        self.batches.append(bytes(data["records"]))
        error = self.errors.pop(0) if self.errors else ErrorCode.none
        if isinstance(error, Problem):
            raise error
        error, message = error if isinstance(error, tuple) else (error, None)
        offset = -1
        if error is ErrorCode.none:
            offset = self.end
            self.end += read_header(data["records"]).records_count
        return SimpleNamespace(
            index=data["index"], error_code=error, base_offset=offset, error_message=message, record_errors=()
        )


def run(context, queues, acks=-1, caller=None):
    async def main():
        CALLER.set(caller or Caller())
        await write(context, queues, acks)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    "trouble",
    [
        LOST,
        ErrorCode.not_leader_or_follower,
        (ErrorCode.not_leader_or_follower, "node 2 leads it"),
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
    ],
)
def test_the_same_batch_is_sent_again_under_its_producer_id(trouble):
    leader = Leader(trouble, trouble)
    queue = lane_of()
    run(context_of(image_of({"t": [1]}), leader), [queue])
    assert queue.problem is None
    assert queue.offsets() == [0, 1, 2]
    assert leader.batches == [leader.batches[0]] * 3
    header = read_header(leader.batches[0])
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (100, 0, 0)


@pytest.mark.parametrize(
    ("trouble", "sent"),
    [
        (LOST, 1),
        (ErrorCode.not_leader_or_follower, 1),
        (ErrorCode.request_timed_out, 1),
        (ErrorCode.not_enough_replicas_after_append, 1),
        ((ErrorCode.not_leader_or_follower, "node 2 leads it"), 2),
        (ErrorCode.not_enough_replicas, 2),
    ],
)
def test_without_a_producer_id_what_may_be_written_is_not_sent_again(trouble, sent):
    leader = Leader(trouble, ids=False)
    queue = lane_of()
    run(context_of(image_of({"t": [1]}), leader), [queue])
    assert len(leader.batches) == sent
    assert read_header(leader.batches[0]).producer_id == -1
    assert (queue.problem is None) == (sent == 2)
    assert queue.is_unknown == (sent == 1)


def test_refused_batch_after_one_that_was_written_at_last_is_not_unknown():
    leader = Leader(LOST, ErrorCode.none, ErrorCode.message_too_large)
    queue = lane_of(batch_bytes_max=80)
    run(context_of(image_of({"t": [1]}), leader), [queue])
    assert queue.written
    assert queue.problem is not None
    assert not queue.is_unknown


@pytest.mark.parametrize("ids", [True, False])
def test_records_that_the_caller_may_not_write_are_refused_at_once_and_not_written(ids):
    leader = Leader(NOT_ALLOWED, ids=ids)
    queue = lane_of()
    run(context_of(image_of({"t": [1]}), leader), [queue])
    assert len(leader.batches) == 1
    assert queue.problem is NOT_ALLOWED
    assert not queue.is_unknown


@pytest.mark.parametrize("acks", [-1, 0])
@pytest.mark.parametrize("node", [1, 2], ids=["this broker leads", "another broker leads"])
def test_records_of_topics_that_the_caller_may_not_write_are_refused_and_the_others_written(node, acks):
    acls = Acls((Operation.WRITE, ResourceType.TOPIC, "t"))
    context = context_of(image_of({"t": [node], "u": [node], "v": [node]}), Leader(), authorization=acls)
    queues = [lane_of(topic=topic) for topic in ("u", "t", "v")]
    run(context, queues, acks=acks, caller=ANN)
    assert [queue.written for queue in queues] == [0, 3, 0]
    assert [queue.problem and queue.problem.error for queue in queues] == ["not-allowed", None, "not-allowed"]
    assert "may not WRITE topic 'v'" in queues[2].problem.message
    assert not queues[0].is_unknown
    assert acls.denied == [(Operation.WRITE, ResourceType.TOPIC)], "one denied request"
    ((_level, event, fields),) = context.shell.rate_limit.lines
    assert (event, fields["api"], fields["resources"]) == ("audit", "Produce", "WRITE TOPIC u")


def test_request_of_which_each_record_is_denied_sends_nothing():
    context = context_of(image_of({"t": [2]}), Leader(), authorization=Acls())
    queue = lane_of()
    run(context, [queue], caller=ANN)
    assert queue.problem.error == "not-allowed"
    assert context.broker_client.requests == [], "no producer id either"


def test_lasting_error_is_reported_after_the_retries():
    leader = Leader(*[ErrorCode.not_enough_replicas] * 1000)
    queue = lane_of()
    context = context_of(image_of({"t": [1]}), leader, retry_ms=1000)
    run(context, [queue])
    assert queue.problem.error == "not-enough-replicas"
    assert (queue.written, queue.offsets()) == (0, [])
    assert 3 < len(leader.batches) < 30
    leaderless = lane_of()
    run(context_of(image_of({"t": [-1]}), Leader()), [leaderless])
    assert leaderless.problem.error == "leader-not-available"
    gone = lane_of()
    run(context_of(image_of({}), Leader()), [gone])
    assert gone.problem.status == 404


def test_refusal_is_final_and_the_other_lanes_continue():
    image = image_of({"t": [1, 2]})
    leaders = {1: Leader((ErrorCode.invalid_record, "it has no key")), 2: Leader()}
    context = context_of(image, lambda key, fields, node: leaders[node or 1](key, fields, node))
    queues = [lane_of(partition=0), lane_of(partition=1)]
    run(context, queues)
    assert (queues[0].problem.status, queues[0].problem.error) == (400, "invalid-record")
    assert "it has no key" in queues[0].problem.message
    assert queues[1].problem is None


def test_large_lanes_go_in_several_batches_with_sequences_that_follow():
    leader = Leader(ErrorCode.none, LOST)
    queue = lane_of(count=10, batch_bytes_max=61 + 3 * 60, value=b"x" * 50)
    run(context_of(image_of({"t": [1]}), leader), [queue])
    headers = [read_header(batch) for batch in leader.batches]
    assert [(header.base_sequence, header.records_count) for header in headers] == [
        (0, 3),
        (3, 3),
        (3, 3),
        (6, 3),
        (9, 1),
    ]
    assert {header.producer_id for header in headers} == {100}
    assert queue.offsets() == list(range(10))
    assert all(len(batch) <= queue.batch_bytes_max for batch in leader.batches)
    assert all(record.value == b"x" * 50 for batch in leader.batches for record in walk_records(batch))


def test_producer_id_is_reused_in_a_new_epoch_but_not_after_an_error():
    leader = Leader()
    context = context_of(image_of({"t": [1]}), leader)
    for _ in range(3):
        run(context, [lane_of()])
    leader.errors = [(ErrorCode.invalid_record, "no")]
    run(context, [lane_of()])
    run(context, [lane_of()])
    used = [(read_header(batch).producer_id, read_header(batch).producer_epoch) for batch in leader.batches]
    assert used == [(100, 0), (100, 1), (100, 2), (100, 3), (101, 0)]


def test_an_id_ends_with_its_last_epoch():
    leader = Leader()
    context = context_of(image_of({"t": [1]}), leader)
    run(context, [lane_of()])
    context.part(ProducerIds)._free = [(100, 2**15 - 2)]
    run(context, [lane_of()])
    run(context, [lane_of()])
    used = [(read_header(batch).producer_id, read_header(batch).producer_epoch) for batch in leader.batches]
    assert used == [(100, 0), (100, 2**15 - 1), (101, 0)]


def test_acks_0_needs_no_answer_and_no_producer_id():
    context = context_of(image_of({"t": [2]}), Leader())
    queue = lane_of()
    run(context, [queue], acks=0)
    ((api_key, fields, node_id),) = context.broker_client.requests
    assert (api_key, fields["acks"], node_id) == (PRODUCE, 0, 2)
    assert queue.offsets() == [None] * 3
