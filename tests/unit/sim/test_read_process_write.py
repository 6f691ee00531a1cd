"""The group that processes transactions: what its members write, when they give up, and the check of the output."""

from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode

from yak.sim.deliveries import Violation
from yak.sim.group_wire import ADD_OFFSETS, TXN_OFFSET_COMMIT
from yak.sim.history_checker.history import Outcome
from yak.sim.read_process_write import OUTPUT, CommittedReads, _Input, _Job, _Processor, hop_of, source_of
from yak.sim.recorder import CommitInFlight, Recorder
from yak.sim.seeded_random import SeededRandom
from yak.sim.transactional_producer import ADD_PARTITIONS, END_TXN, INIT_PRODUCER_ID, PRODUCE, TRANSACTIONS

from .test_transactional_producer import FakeWorld

NONE = ErrorCode.none
INPUT = (TRANSACTIONS, 0)
FIRST = [_Input(INPUT, 4, b"tx:1"), _Input(INPUT, 5, b"tx:2")]


class Scripted(_Processor):
    """A processor whose brokers answer from `fails`: an error by request, otherwise success."""

    def __init__(self, *, is_protocol_2=False, fails=None):
        self.world, self.requests, self.fails, self.settled = FakeWorld(), [], fails or {}, []
        self.recorder = Recorder(self.world)
        deliveries = SimpleNamespace(recorder=self.recorder, count=lambda _what: None)
        group = SimpleNamespace(
            view=SimpleNamespace(cluster=SimpleNamespace(world=self.world)),
            deliveries=deliveries,
            group_id="g",
            is_protocol_2=is_protocol_2,
            may_abort=False,
            hops=2,
            recorder=self.recorder,
            count=deliveries.count,
            history=SimpleNamespace(commits=self.commits, committed=self.committed),
        )
        member = SimpleNamespace(group=group, instance=None, is_classic=True)
        super().__init__(member, "p", "id", SeededRandom("scripted"))
        self._channels = [SimpleNamespace(send=self.produced, close=lambda: None)] * 2
        self._link = SimpleNamespace(send=self.committing, note_answer=lambda _code: None, close=lambda: None)

    def commits(self, process, group, generation, offsets):
        return CommitInFlight(process, group, offsets, 0.0, 0)

    def committed(self, group, commit, outcome, *, is_classic):
        self.settled.append(outcome)

    def _ask(self, api_key, version, fields, done):
        code = self.answer(api_key, fields.get("committed"))
        if code is not None:
            partitions = [SimpleNamespace(partition_error_code=code)]
            topics = [SimpleNamespace(results_by_partition=partitions)]
            done(
                SimpleNamespace(error_code=code, producer_id=7, producer_epoch=0, results_by_topic_v3_and_below=topics)
            )

    def answer(self, api_key, detail=None):
        self.requests.append((api_key, detail))
        return self.fails.get(api_key, NONE)

    def produced(self, api_key, version, fields, done):
        result = SimpleNamespace(error_code=self.answer(api_key), base_offset=len(self.requests))
        done(SimpleNamespace(responses=[SimpleNamespace(partition_responses=[result])]))

    def committing(self, api_key, fields, done, version):
        code = self.answer(api_key, (fields["member_id"], fields["generation_id"]))
        offsets = [SimpleNamespace(error_code=code) for topic in fields["topics"] for _ in topic["partitions"]]
        done(SimpleNamespace(topics=[SimpleNamespace(partitions=offsets)]))

    def go(self, *, steps=8, inputs=FIRST, more=()):
        """Process inputs, then `more` in the same transaction; returns what was asked for and how it ended."""
        ended, waiting = [], [list(more)]
        self.start()
        assert self.is_free
        self.recorder.sent(INPUT, [each.value for each in (*inputs, *more)])
        self._rng = SimpleNamespace(between=lambda low, _high: low, chance=lambda _percent: True)
        read_on = lambda: waiting.pop() if waiting else []  # noqa: E731
        self.process(_Job(inputs, {INPUT: 6}, "m", 2, read_on, ended.append))
        self.world.run(steps)
        return [key for key, _ in self.requests], ended


def test_outputs_and_offsets_are_in_one_transaction():
    processor = Scripted()
    keys, ended = processor.go()
    wanted = [INIT_PRODUCER_ID, ADD_PARTITIONS, PRODUCE, PRODUCE, ADD_OFFSETS, TXN_OFFSET_COMMIT, END_TXN]
    assert keys == wanted
    assert (TXN_OFFSET_COMMIT, ("m", 2)) in processor.requests
    assert ended == processor.settled == [Outcome.OK]
    outputs = [value for value in processor.recorder._sent if value.startswith(b"p:")]
    assert {source_of(value) for value in outputs} == {f"{TRANSACTIONS}-0@4", f"{TRANSACTIONS}-0@5"}
    assert {hop_of(value) for value in outputs} == {1}
    assert processor.is_free


def test_protocol_2_adds_the_group_with_its_offsets():
    keys, ended = Scripted(is_protocol_2=True).go()
    assert keys[:4] == [INIT_PRODUCER_ID, PRODUCE, PRODUCE, TXN_OFFSET_COMMIT]
    assert ended == [Outcome.OK]


@pytest.mark.parametrize("is_protocol_2", [False, True])
def test_transaction_reads_and_writes_again_before_it_commits(is_protocol_2):
    processor = Scripted(is_protocol_2=is_protocol_2)
    keys, ended = processor.go(more=[_Input((OUTPUT, 1), 7, b"p:9 1 t-txn-0@1")])
    assert [key for key in keys if key in (PRODUCE, TXN_OFFSET_COMMIT)] == [
        PRODUCE,
        PRODUCE,
        PRODUCE,
        TXN_OFFSET_COMMIT,
    ]
    assert ended == [Outcome.OK]
    history = processor.recorder.history(lambda _place: True, lambda _group: True, lambda _place: 0)
    read = [(poll.txn, run.partition, list(run.offsets)) for poll in history.polls() for run in poll.runs]
    assert read == [(0, f"{TRANSACTIONS}-0", [4, 5]), (0, f"{OUTPUT}-1", [7])]
    assert all(poll.read_committed for poll in history.polls())


def test_last_hop_has_no_output_and_adds_no_partition():
    processor = Scripted()
    keys, ended = processor.go(inputs=[_Input((OUTPUT, 0), 3, b"p:9 2 t-out-1@7")])
    assert keys == [INIT_PRODUCER_ID, ADD_OFFSETS, TXN_OFFSET_COMMIT, END_TXN]
    assert ended == [Outcome.OK]


@pytest.mark.parametrize("code", [ErrorCode.illegal_generation, ErrorCode.unknown_member_id])
def test_a_member_that_left_the_generation_aborts(code):
    processor = Scripted(fails={TXN_OFFSET_COMMIT: code})
    _keys, ended = processor.go()
    assert (END_TXN, False) in processor.requests
    assert (END_TXN, True) not in processor.requests
    assert ended == processor.settled == [Outcome.FAIL]


def test_offsets_are_sent_again_while_the_coordinator_loads():
    processor = Scripted(fails={TXN_OFFSET_COMMIT: ErrorCode.coordinator_load_in_progress})
    keys, ended = processor.go()
    assert keys.count(TXN_OFFSET_COMMIT) > 2
    assert not ended


@pytest.mark.parametrize(
    ("where", "outcome"),
    [(PRODUCE, Outcome.FAIL), (ADD_OFFSETS, Outcome.FAIL), (TXN_OFFSET_COMMIT, Outcome.FAIL), (END_TXN, Outcome.INFO)],
)
def test_fenced_processor_knows_the_outcome_unless_it_requested_the_commit(where, outcome):
    _keys, ended = Scripted(fails={where: ErrorCode.producer_fenced}).go(steps=4)
    assert ended[0] is outcome


def test_a_killed_processor_says_nothing_more():
    processor = Scripted()
    processor.go(steps=0)
    before = list(processor.requests)
    processor.kill()
    processor.world.run(20)
    assert processor.requests == before
    assert not processor.is_free


# --------------------------------------------------------------------------------------------------- the output


def reads(*, inputs, outputs, again=()):
    found = CommittedReads(SimpleNamespace(promises=lambda _topic, _partition: True))
    for offset in inputs:
        found.read(TRANSACTIONS, 0, offset, b"tx:1", 99)
    for offset, source in enumerate(outputs):
        found.read(OUTPUT, 0, offset, f"p:{offset} 1 {TRANSACTIONS}-0@{source}".encode(), 99)
    for offset, source in enumerate(again):
        found.read(OUTPUT, 1, offset, f"p:{offset} 2 {OUTPUT}-0@{source}".encode(), 99)
    found.read("t-compact", 0, 0, b"tx:2", 99)
    return found


def test_every_input_once_in_the_output_is_sound():
    assert reads(inputs=[0, 3], outputs=[3, 0]).check_processed_once(hops=1) == 2
    assert reads(inputs=[0, 3], outputs=[3, 0], again=[1, 0]).check_processed_once(hops=2) == 4


@pytest.mark.parametrize(
    ("outputs", "message"),
    [([0], "@3 is in the output 0 times"), ([0, 3, 3], "@3 is in the output 2 times"), ([0, 3, 5], "@5 .* 1 times")],
)
def test_a_lost_doubled_or_aborted_input_is_a_violation(outputs, message):
    with pytest.raises(Violation, match=message):
        reads(inputs=[0, 3], outputs=outputs).check_processed_once(hops=1)


@pytest.mark.parametrize(
    ("again", "message"), [([0], "t-out-0@1 is in the output 0"), ([0, 1, 1], "t-out-0@1 is in the output 2")]
)
def test_record_lost_or_doubled_on_its_second_hop_is_a_violation(again, message):
    with pytest.raises(Violation, match=message):
        reads(inputs=[0, 3], outputs=[3, 0], again=again).check_processed_once(hops=2)


def test_record_read_at_or_above_the_high_watermark_is_not_committed():
    with pytest.raises(Violation, match="was read at or above 0"):
        CommittedReads(SimpleNamespace(promises=lambda _topic, _partition: True)).read(OUTPUT, 0, 0, b"p:1 x", 0)
