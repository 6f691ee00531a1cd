"""A consumer group that reads transactions and writes one record for each in transactions of its own (KIP-447).

A member writes its outputs and commits its offsets in one transaction. It may read and write repeatedly before it
commits, as Kafka Streams does. The group also reads its output, and processes a record again until it has made `hops` hops.
A member may be killed or stand still at any time, and its successor goes on from the committed offsets. In the end each
committed input is in the output exactly once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from yak.sim.clients import RETRY_US
from yak.sim.deliveries import Violation
from yak.sim.group_member import DEFINITE, NONE, ClassicMember, ConsumerMember, GroupMember, PossibleCommit
from yak.sim.group_wire import ADD_OFFSETS, TXN_OFFSET_COMMIT, CoordinatorLink, Place, txn_commit_request
from yak.sim.groups import COMMIT_US, SimGroup
from yak.sim.history_checker.history import Outcome
from yak.sim.recorder import CommitInFlight, CommitMark, ReadRecorder
from yak.sim.transactional_producer import FATAL, PARTITIONS, TRANSACTIONS, SimTransactionalProducer
from yak.transactions.records import TRANSACTION_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yak.sim.deliveries import Deliveries
    from yak.sim.group_history import GroupHistory
    from yak.sim.request_fields import Fields
    from yak.sim.routing import View
    from yak.sim.seeded_random import SeededRandom

OUTPUT = "t-out"
GROUP = "g-processing"
PAUSE_US = 200_000
_ABORTS_PERCENT = 15
_READS_ON_PERCENT = 50
"""How often a transaction goes on with what its member read meanwhile."""
_REFUSALS = DEFINITE - {ErrorCode.coordinator_load_in_progress}


class CommittedReads:
    """What `read_committed` readers of one run got, and that it was committed; the recorded history has the rest."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self.values: dict[tuple[str, int, int], bytes] = {}
        """By topic, partition and offset."""

    def read(self, topic: str, partition: int, offset: int, value: bytes, high_watermark: int) -> None:
        """Only committed records may be served (I9)."""
        if offset >= high_watermark and self._deliveries.promises(topic, partition):
            raise Violation(f"I9: {topic}-{partition}@{offset} was read at or above {high_watermark}")
        self.values[topic, partition, offset] = value

    def check_processed_once(self, hops: int) -> int:
        """Each committed input is in the output exactly once (I12), on every hop. Returns the number of inputs."""
        inputs = {
            f"{topic}-{part}@{at}"
            for (topic, part, at), value in self.values.items()
            if topic in (TRANSACTIONS, OUTPUT) and hop_of(value) < hops
        }
        outputs = Counter(source_of(value) for (topic, _, _), value in self.values.items() if topic == OUTPUT)
        for source in sorted(inputs | set(outputs)):
            wanted, found = int(source in inputs), outputs[source]
            if found != wanted:
                raise Violation(f"I12: {source} is in the output {found} times, and {wanted} times in the input")
        return len(inputs)


def source_of(value: bytes) -> str:
    """The input that an output record names."""
    return value.decode().rsplit(" ", 1)[1]


def hop_of(value: bytes) -> int:
    """The number of transactions that processed a record before; an output record has it before its source."""
    parts = value.split(b" ")
    return int(parts[1]) if len(parts) > 1 else 0


class _Input(NamedTuple):
    """A record that a member read."""

    place: Place
    offset: int
    value: bytes


class _Job(NamedTuple):
    """The first inputs of one transaction, and the commit of their offsets."""

    inputs: list[_Input]
    offsets: Mapping[Place, int]
    member_id: str
    generation: int
    more: Callable[[], list[_Input]]
    """Returns the inputs that the member read meanwhile, and advances `offsets` past them."""
    then: Callable[[Outcome], None]


class _Processor(SimTransactionalProducer):
    """A process's producer: one transaction for each job. Killed, it says nothing more."""

    topic = OUTPUT

    def __init__(self, member: ProcessingMember, name: str, transactional_id: str, rng: SeededRandom) -> None:
        group = member.group
        super().__init__(
            group.view,
            rng,
            group.deliveries,
            name,
            transactional_id,
            timeout_ms=rng.choice((1_500, 5_000)),
            is_protocol_2=group.is_protocol_2,
            pause_us=PAUSE_US,
        )
        self._group, self._instance, self._is_classic = group, member.instance, member.is_classic
        self._link = CoordinatorLink(group.view, rng.fork("offsets"), group.group_id)
        self._job: _Job | None = None
        self._inputs: list[_Input] = []
        """What the transaction processes now."""
        self._commit: CommitInFlight | None = None
        self._is_ready = False

    @property
    def is_free(self) -> bool:
        """Whether it has its producer id and no transaction."""
        return self._is_ready and self._job is None and not self._is_stopped

    def process(self, job: _Job) -> None:
        """Write the outputs of these inputs and commit their offsets."""
        self._job, self._inputs, self._commit = job, job.inputs, None
        super()._begin()
        if self._group.may_abort:
            self._is_commit = not self._rng.chance(_ABORTS_PERCENT)
        else:
            self._is_commit = True

    def kill(self) -> None:
        """The process ends in the middle of whatever it does."""
        ending, self._ending = self._ending, None
        self.stop()
        if ending is not None:
            self._settle(Outcome.INFO if ending.may_be_committed else Outcome.FAIL)
        self._link.close()
        self._coordinator.leave()
        for channel in self._channels:
            channel.close()

    def _begin(self) -> None:
        self._is_ready = True

    def _outputs(self) -> list[_Input]:
        """The inputs that have an output: the last hop's have none."""
        return [each for each in self._inputs if hop_of(each.value) < self._group.hops]

    def _targets(self) -> list[Place]:
        numbers = {each.offset % PARTITIONS for each in self._outputs()}
        return [place for number, place in enumerate(self._partitions) if number in numbers]

    def _add(self) -> None:
        # a marker without a record would be an input without end
        if self._targets():
            super()._add()
        else:
            self._write()

    def _write(self) -> None:
        assert self._ending is not None
        for place in dict.fromkeys(each.place for each in self._inputs):
            records = [(each.offset, each.value) for each in self._inputs if each.place == place]
            self._group.recorder.processes(self._ending, place, records)
        super()._write()

    def _values(self) -> dict[int, list[bytes]]:
        values: dict[int, list[bytes]] = {}
        for (topic, partition), offset, value in self._outputs():
            made = self._value(f" {hop_of(value) + 1} {topic}-{partition}@{offset}")
            values.setdefault(offset % PARTITIONS, []).append(made)
        return values

    def _written(self) -> None:
        self._after(self._rng.between(0, self._pause_us), self._read_on)

    def _read_on(self) -> None:
        """Process what the member read meanwhile in the same transaction, or end it."""
        assert self._job is not None
        self._inputs = self._job.more() if self._rng.chance(_READS_ON_PERCENT) else []
        if self._inputs:
            self._write() if self._is_protocol_2 else self._add()
        elif self._is_protocol_2:
            self._commit_offsets()
        else:
            self._add_group()

    def _add_group(self) -> None:
        fields = {
            "transactional_id": self._transactional_id,
            "producer_id": self._producer[0],
            "producer_epoch": self._producer[1],
            "group_id": self._group.group_id,
        }
        self._ask(ADD_OFFSETS, 3, fields, self._on_group_added)

    def _on_group_added(self, answer: Any | None) -> None:
        if answer is not None and answer.error_code == NONE:
            self._commit_offsets()
        elif answer is not None and answer.error_code in FATAL:
            self._give_up()
        else:
            self._leave_unless_concurrent(answer)
            self._after(RETRY_US, self._add_group)

    def _commit_offsets(self) -> None:
        job, ending, group = self._job, self._ending, self._group
        assert job is not None
        assert ending is not None
        if self._commit is None:
            self._commit = group.history.commits(self._name, group.group_id, job.generation, job.offsets)
            self._commit.ending = ending
        mark = CommitMark(self._commit.number, job.generation, job.member_id).text
        fields = txn_commit_request(
            self._transactional_id,
            self._producer,
            group.group_id,
            (job.member_id, job.generation, self._instance),
            job.offsets,
            mark,
        )

        def answered(answer: Any | None) -> None:
            if ending is self._ending:
                topics = () if answer is None else answer.topics
                self._offsets_committed({ErrorCode(each.error_code) for topic in topics for each in topic.partitions})

        self._link.send(TXN_OFFSET_COMMIT, fields, answered, 5 if self._is_protocol_2 else 3)

    def _offsets_committed(self, codes: set[ErrorCode]) -> None:
        for code in sorted(codes - {NONE}):
            self._link.note_answer(code)
            self._group.count(f"transactional commits refused: {code.name}")
        if codes == {NONE}:
            self._after(self._rng.between(0, self._pause_us), self._end)
        elif codes & FATAL:
            self._give_up()
        elif codes & _REFUSALS:
            self._is_commit = False
            self._end()
        else:
            self._after(RETRY_US, self._commit_offsets)

    def _settle(self, outcome: Outcome) -> None:
        job, self._job = self._job, None
        if self._commit is not None:
            self._group.history.committed(self._group.group_id, self._commit, outcome, is_classic=self._is_classic)
        if job is not None:
            self._group.count(f"jobs: {outcome}")
            job.then(outcome)

    def _is_over(self, outcome: Outcome) -> None:
        self._settle(outcome)
        self._is_ready = False

    def _after(self, wait_us: int, then: Any) -> None:
        super()._after(wait_us, lambda: None if self._is_stopped else then())

    def _ask(self, api_key: int, version: int, fields: Fields, done: Any) -> None:
        super()._ask(api_key, version, fields, lambda answer: None if self._is_stopped else done(answer))


class _Inputs(ReadRecorder):
    """A member's reading of one partition, which keeps what it read."""

    def __init__(self, member: ProcessingMember, place: Place) -> None:
        group = member.group
        super().__init__(group.deliveries, group.recorder, member.process, place, group.read)
        self.inputs: list[_Input] = []

    def read(self, topic: str, partition: int, offset: int, value: bytes, high_watermark: int) -> None:
        super().read(topic, partition, offset, value, high_watermark)
        if not self.is_over:
            self.inputs.append(_Input((topic, partition), offset, value))

    def between(self, start: int, end: int) -> list[_Input]:
        """What it read from `start` on, below `end`."""
        return [each for each in self.inputs if start <= each.offset < end]


class _Life:
    """One process of a member: its producer, and what it read."""

    def __init__(self, processor: _Processor) -> None:
        self.processor = processor
        self.inputs: dict[Place, _Inputs] = {}
        self.done: dict[Place, int] = {}
        """The offset from which on it read, or that it committed last."""


class ProcessingMember(GroupMember):
    """The common part of processing members of both protocols: their commits are transactions."""

    read_committed = True

    def __init__(self, group: ProcessingGroup, number: int, rng: SeededRandom, instance: str | None) -> None:
        super().__init__(group, number, rng, instance)
        self.group, self.instance = group, instance
        self._lives: dict[str, _Life] = {}

    def start(self) -> None:
        """Start the process, with a producer of its own."""
        if self.is_running:
            return
        super().start()
        self.group.recorder.reads_committed(self.process)
        name = self.process.replace(":", "-")
        fenced_by_the_next = f"{self.group.group_id}/{self._number}"
        transactional_id = name if self.group.is_fenced_by_generation else fenced_by_the_next
        processor = _Processor(self, name, transactional_id, self._rng.fork(f"processor {self._life}"))
        self._lives[self.process] = _Life(processor)
        processor.start()

    def _end(self) -> None:
        # a process that only stands still goes on with its transaction, and with a late commit
        if self._rng.chance(50):
            self._lives[self.process].processor.kill()
        super()._end()

    def _reading(self, place: Place) -> ReadRecorder:
        life = self._lives[self.process]
        reading = life.inputs[place] = _Inputs(self, place)
        return reading

    def _read(self, place: Place, start: int) -> None:
        super()._read(place, start)
        self._lives[self.process].done[place] = max(0, start)

    def _commit(
        self, link: CoordinatorLink, what: PossibleCommit, then: Callable[[Mapping[Place, ErrorCode]], None]
    ) -> None:
        process, member_id, generation, offsets = what
        life = self._lives[process]
        if not life.processor.is_free:
            then({})
            return
        is_own, round_ = link is self._link and process == self.process and self._has_all, self._round
        ends = dict(offsets)

        def is_current() -> bool:
            return is_own and self.is_running and (self._round, self.generation) == (round_, generation)

        def more() -> list[_Input]:
            found = []
            for place, end in self._positions().items() if is_current() else ():
                start = ends.get(place, life.done[place])
                if start < end:
                    found += life.inputs[place].between(start, end)
                    ends[place] = end
            return found

        def ended(outcome: Outcome) -> None:
            is_ok = outcome is Outcome.OK
            if is_ok:
                life.done |= {place: at for place, at in ends.items() if at > life.done[place]}
            then(dict.fromkeys(offsets, NONE if is_ok else ErrorCode.unknown_server_error))
            if is_ok and is_current():
                for place in [place for place in ends if place in self._own]:
                    self._own[place].committed = ends[place]
            elif not is_ok and is_own and self.is_running and self._round == round_:
                # process again from the committed offsets on
                self._group.count("members rewound")
                self.leave()
                self._world.after(RETRY_US, self.start)

        inputs = [each for place, end in offsets.items() for each in life.inputs[place].between(life.done[place], end)]
        life.processor.process(_Job(inputs, ends, member_id, generation, more, ended))


class ProcessingClassicMember(ProcessingMember, ClassicMember):
    """A member that speaks the classic protocol."""


class ProcessingConsumerMember(ProcessingMember, ConsumerMember):
    """A member that speaks ConsumerGroupHeartbeat."""


class ProcessingGroup(SimGroup):
    """The group of a run that processes transactions."""

    def __init__(self, view: View, rng: SeededRandom, deliveries: Deliveries, history: GroupHistory) -> None:
        self.may_abort = True
        self.is_protocol_2 = rng.chance(50)
        self.is_fenced_by_generation = rng.chance(50)
        """Each process has a transactional id of its own; otherwise a process fences the one before."""
        kind = ProcessingClassicMember if rng.chance(60) else ProcessingConsumerMember
        self.hops = rng.between(1, 3)
        """How many transactions process a record; each reads the output of the one before."""
        topics = (TRANSACTIONS, OUTPUT) if self.hops > 1 else (TRANSACTIONS,)
        super().__init__(GROUP, view, rng, deliveries, history, topics, kind=kind)
        self.read = CommittedReads(deliveries).read

    @property
    def is_checked(self) -> bool:
        """Whether all that its transactions are made of is promised."""
        partitions = [(topic, partition) for topic in (TRANSACTIONS, OUTPUT) for partition in range(PARTITIONS)]
        promised = all(self.deliveries.promises(*place) for place in (*partitions, (TRANSACTION_TOPIC, 0)))
        return promised and self.history.promises(self.group_id)

    def end_faults(self) -> None:
        """Abort no more transactions, and commit more often, too: each hop takes a commit."""
        self.may_abort, self.commit_us = False, COMMIT_US[0]
        super().end_faults()

    def trouble(self, ends: dict[Place, int]) -> str | None:
        """As for every group, while what its transactions need is promised."""
        return super().trouble(ends) if self.is_checked else None
