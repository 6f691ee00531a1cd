"""Members of the groups, of both protocols.

A member reads its partitions from the group's committed offsets on, commits its positions, and may crash at any time. A
crashed member may still have a commit in flight, or send one late, as a paused process does when it resumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from yak.sim.clients import RETRY_US, SimConsumer
from yak.sim.group_wire import (
    GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN,
    LEAVE,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PROTOCOL,
    SYNC,
    CoordinatorLink,
    Place,
    assignment,
    commit_request,
    committed_offsets,
    fetch_error,
    fetch_request,
    ms,
    read_assignment,
    subscription,
)
from yak.sim.history_checker.history import Outcome
from yak.sim.recorder import CommitMark, ReadRecorder
from yak.sim.request_fields import Fields
from yak.sim.routing import Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yak.sim.groups import SimGroup
    from yak.sim.seeded_random import SeededRandom

HEARTBEAT_US = 500_000
JOINING, LEAVING, LEAVING_FOR_NOW = 0, -1, -2
NONE = ErrorCode.none
DEFINITE = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_instance_id,
        ErrorCode.stale_member_epoch,
        ErrorCode.group_id_not_found,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.rebalance_in_progress,
    }
)
"""Errors of a commit that prove that no offset was committed."""


@dataclass(slots=True)
class _OwnedPartition:
    """A partition that is read."""

    channel: Channel
    consumer: SimConsumer
    reading: ReadRecorder
    committed: int


class PossibleCommit(NamedTuple):
    """What a member can commit at some time."""

    process: str
    member_id: str
    generation: int
    offsets: dict[Place, int]


class GroupMember:
    """One process. `number` is unique in the group; each incarnation has its own name in the history."""

    is_classic = True
    read_committed = False

    def __init__(self, group: SimGroup, number: int, rng: SeededRandom, instance: str | None) -> None:
        self.is_running = False
        self.member_id = ""
        self.generation = -1
        self._group = group
        self._rng = rng
        self._instance = instance
        self._number = number
        self._world = group.view.cluster.world
        self._link = CoordinatorLink(group.view, rng.fork("link"), group.group_id)
        self._own: dict[Place, _OwnedPartition] = {}
        self._round = 0
        """Responses of earlier rounds are ignored: the member has rejoined, or is another process."""
        self._life = 0
        self._past: PossibleCommit | None = None
        """What it could have committed when it revoked its partitions."""
        self._is_committing = False
        self._has_all = False
        """Whether it has its assignment and its start offsets."""

    # ------------------------------------------------------------------------------------------------- lifecycle

    @property
    def process(self) -> str:
        """Its name in the history."""
        return f"{self._group.group_id}/{self._number}.{self._life}"

    @property
    def owner(self) -> str:
        """Its identity in the group: a static member keeps it over a restart."""
        return self._instance or self.process

    @property
    def owned(self) -> list[Place]:
        return list(self._own)

    def committed(self, place: Place) -> int:
        """The last committed offset of one of its partitions."""
        return self._own[place].committed

    @property
    def is_settled(self) -> bool:
        """Whether it has its assignment, and committed everything that it read."""
        return self._has_all and all(own.committed == own.consumer.position for own in self._own.values())

    def start(self) -> None:
        if self.is_running:
            return
        self.is_running = True
        self._life += 1
        self.member_id, self.generation = "", -1
        self._begin_round()
        self._join()
        self._after(self._rng.between(self._group.commit_us // 2, self._group.commit_us), self._commit_now_and_then)

    def crash(self) -> None:
        """The process and its connections are gone; or it is paused, and its last commit arrives late."""
        if not self.is_running:
            return
        self.is_running = False
        self._group.count("members crashed")
        if self._own and self._rng.chance(50):
            last = self._possible_commit(self._positions())
            link = CoordinatorLink(self._group.view, self._rng.fork("late"), self._group.group_id)
            self._world.after(
                self._rng.between(1_000, 2_000 * self._group.session_ms),
                lambda: self._commit(link, last, lambda _codes: link.close()),
            )
            self._group.count("commits by the dead")
        self._end()

    def leave(self) -> None:
        if not self.is_running:
            return
        self.is_running = False
        self._group.count("members left")
        self._say_goodbye()
        self._end()

    def _say_goodbye(self) -> None:
        leaver = {"member_id": self.member_id, "group_instance_id": self._instance}
        self._send_once(LEAVE, {"group_id": self._group.group_id, "members": [leaver]})

    def _send_once(self, api_key: int, fields: Fields) -> None:
        link = CoordinatorLink(self._group.view, self._rng.fork("leave"), self._group.group_id)
        link.send(api_key, fields, lambda _answer: link.close())

    def _end(self) -> None:
        self._begin_round()
        self._give_up(list(self._own))
        self._link.close()

    def _begin_round(self) -> None:
        self._round += 1
        self._has_all = self._is_committing = False

    def _after(self, delay_us: int, then: Callable[[], None]) -> None:
        """Run an action later, if this incarnation is still running."""
        life = self._life

        def happen() -> None:
            if self.is_running and self._life == life:
                then()

        self._world.after(delay_us, happen)

    def _in_this_round(self, delay_us: int, then: Callable[[], None]) -> None:
        """Run an action later, unless the member rejoins before."""
        round_ = self._round
        self._after(delay_us, lambda: then() if self._round == round_ else None)

    def _send(self, api_key: int, fields: Fields, done: Callable[[Any | None], None]) -> None:
        """Send a request to the coordinator; a response in a later round is ignored."""
        round_ = self._round

        def answered(answer: Any | None) -> None:
            if self._round == round_:
                done(answer)

        self._link.send(api_key, fields, answered)

    def _join(self) -> None:
        raise NotImplementedError

    def _fenced(self) -> None:
        """The group has fenced the member: join as a new one."""
        self._group.count("members fenced")
        self._give_up(list(self._own))
        self.member_id, self.generation = "", -1
        self._begin_round()
        self._after(RETRY_US, self._join)

    # ------------------------------------------------------------------------------------------------- partitions

    def _read_from_commits(self, partitions: Sequence[Place], then: Callable[[], None]) -> None:
        """Fetch the group's committed offsets of these partitions, and read on from there."""
        if not partitions:
            then()
            return
        requested_at = self._group.recorder.now

        def answered(answer: Any | None) -> None:
            code = None if answer is None else fetch_error(answer)
            if answer is None or code != NONE:
                self._link.note_answer(code or NONE)
                self._in_this_round(RETRY_US, lambda: self._read_from_commits(partitions, then))
                return
            starts = committed_offsets(answer)
            self._group.history.fetched(self._group.group_id, requested_at, starts, self.process)
            self._group.recorder.assigned(self.process, starts, group=self._group.group_id, requested_at=requested_at)
            for place, start in starts.items():
                self._read(place, start)
            then()

        self._send(OFFSET_FETCH, fetch_request(self._group.group_id, partitions), answered)

    def _read(self, place: Place, start: int) -> None:
        group = self._group
        reading = self._reading(place)
        channel = Channel(group.view, self._rng.fork(f"channel {place}"), place)
        consumer = SimConsumer(
            channel,
            reading,
            *place,
            wait_ms=1_500,
            pause_us=group.fetch_pause_us,
            bytes_min=2_048,
            read_committed=self.read_committed,
        )
        consumer.position = max(0, start)
        self._own[place] = _OwnedPartition(channel, consumer, reading, start)
        consumer.start()

    def _reading(self, place: Place) -> ReadRecorder:
        return ReadRecorder(self._group.deliveries, self._group.recorder, self.process, place, self._group.read)

    def hurry(self) -> None:
        """Read on with the group's present pause, which is shorter."""
        for own in self._own.values():
            own.consumer.pause_us = self._group.fetch_pause_us

    def _give_up(self, partitions: Sequence[Place]) -> None:
        if partitions:
            self._past = self._possible_commit(self._positions())
            self._group.recorder.assigned(self.process, {}, dropped=tuple(partitions), group=self._group.group_id)
        for place in partitions:
            own = self._own.pop(place)
            own.consumer.is_stopped = own.reading.is_over = True
            own.channel.close()

    # ---------------------------------------------------------------------------------------------------- commits

    def _positions(self) -> dict[Place, int]:
        return {place: own.consumer.position for place, own in self._own.items()}

    def _possible_commit(self, offsets: dict[Place, int]) -> PossibleCommit:
        return PossibleCommit(self.process, self.member_id, self.generation, offsets)

    def _commit_now_and_then(self) -> None:
        self._commit_own(lambda: None)
        self._after(self._rng.between(self._group.commit_us // 2, self._group.commit_us), self._commit_now_and_then)

    def _commit_own(self, then: Callable[[], None]) -> None:
        """Commit the positions that moved; one commit at a time."""
        moved = {place: at for place, at in self._positions().items() if self._own[place].committed != at}
        if not moved or self._is_committing or not self._has_all:
            then()
            return
        self._is_committing = True
        round_ = self._round

        def ended(codes: Mapping[Place, ErrorCode]) -> None:
            if self._round != round_:
                return
            self._is_committing = False
            for place, at in moved.items():
                # a coordinator may not know a new partition yet, and commit only the others
                if place in self._own and codes.get(place) == NONE:
                    self._own[place].committed = at
            then()

        self._commit(self._link, self._possible_commit(moved), ended)

    def _commit_late(self) -> None:
        """Send a delayed commit of the previous generation, which every coordinator must refuse."""
        past, self._past = self._past, None
        if past is None or (past.member_id, past.generation) == (self.member_id, self.generation):
            return
        self._group.count("commits of the generation before")
        self._commit(self._link, past, lambda _codes: None)

    def _commit(
        self, link: CoordinatorLink, what: PossibleCommit, then: Callable[[Mapping[Place, ErrorCode]], None]
    ) -> None:
        group, (process, member_id, generation, offsets) = self._group, what
        commit = group.history.commits(process, group.group_id, generation, offsets)
        mark = CommitMark(commit.number, generation, member_id).text

        def answered(answer: Any | None) -> None:
            topics = () if answer is None else answer.topics
            codes = {(t.name, p.partition_index): ErrorCode(p.error_code) for t in topics for p in t.partitions}
            if codes and all(code == NONE for code in codes.values()):
                outcome = Outcome.OK
            elif codes and all(code in DEFINITE for code in codes.values()):
                outcome = Outcome.FAIL
            else:
                outcome = Outcome.INFO
            for code in dict.fromkeys(codes.values()):
                link.note_answer(code)
                if code != NONE:
                    group.count(f"commits refused: {code.name}")
            group.history.committed(group.group_id, commit, outcome, is_classic=self.is_classic)
            then(codes)

        fields = commit_request(group.group_id, member_id, generation, self._instance, offsets, mark)
        link.send(OFFSET_COMMIT, fields, answered)


class ClassicMember(GroupMember):
    """Speaks JoinGroup, SyncGroup and Heartbeat, and revokes all its partitions before each rebalance ("eager")."""

    _token = b""
    """Marks the assignment that it computed last."""
    _decided: list[Place] | None = None
    """The partitions that it assigned, while it is the group leader."""

    def _join(self) -> None:
        group = self._group
        self._begin_round()
        self._decided = None
        fields = {
            "group_id": group.group_id,
            "session_timeout": ms(group.session_ms),
            "rebalance_timeout": ms(group.rebalance_ms),
            "member_id": self.member_id,
            "group_instance_id": self._instance,
            "protocol_type": "consumer",
            "protocols": [{"name": PROTOCOL, "metadata": subscription(group.topics)}],
            "reason": None,
        }
        self._send(JOIN, fields, self._joined)

    def _joined(self, answer: Any | None) -> None:
        code = None if answer is None else ErrorCode(answer.error_code)
        if answer is not None and code == NONE:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self._group.count("joins")
            if self._rng.chance(80):
                self._commit_late()
            self._sync(answer)
        elif answer is not None and code == ErrorCode.member_id_required:
            self.member_id = answer.member_id
            self._join()
        else:
            self._again(code)

    def _again(self, code: ErrorCode | None) -> None:
        if code is not None:
            self._link.note_answer(code)
            if code in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
                self._fenced()
                return
        self._after(RETRY_US, self._join)

    def _sync(self, joined: Any) -> None:
        group = self._group
        dealt: list[dict[str, Any]] = []
        if joined.leader == joined.member_id and joined.skip_assignment:
            # a static leader has rejoined, and its last assignment still holds (KIP-814)
            self._decided, self._token = group.dealt.get(self.generation, []), b""
        elif joined.leader == joined.member_id:
            self._decided = group.dealt[self.generation] = group.partitions()
            token = self._token = f"{self.process}:{group.next_token()}".encode()
            names = sorted(each.member_id for each in joined.members)
            dealt = [
                {"member_id": name, "assignment": assignment(self._decided[index :: len(names)], token)}
                for index, name in enumerate(names)
            ]
            group.count("rebalances")
        self._send(SYNC, self._identity() | {"assignments": dealt}, self._synced)

    def _identity(self) -> Fields:
        return {
            "group_id": self._group.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self._instance,
        }

    def _synced(self, answer: Any | None) -> None:
        code = None if answer is None else ErrorCode(answer.error_code)
        if answer is None or code != NONE:
            self._again(code)
            return
        partitions, token = read_assignment(bytes(answer.assignment)) if answer.assignment else ([], b"")
        if self._token and token != self._token and self._decided is not None:
            # a late response let it assign twice in one generation, and the first assignment holds: assign again
            self._decided = []
        if token:
            self._group.history.assigned(self._group.group_id, self.generation, self.owner, token, partitions)
        self._heartbeat_later()
        self._read_from_commits(partitions, self._has_begun)

    def _has_begun(self) -> None:
        self._has_all = True

    def _heartbeat_later(self) -> None:
        self._in_this_round(self._group.heartbeat_us, self._heartbeat)

    def _heartbeat(self) -> None:
        if self._decided is not None and self._decided != self._group.partitions():
            # its topics have more partitions: the group leader triggers a rebalance
            self._rejoin()
            return
        self._send(HEARTBEAT, self._identity(), self._on_heartbeat)

    def _on_heartbeat(self, answer: Any | None) -> None:
        code = None if answer is None else ErrorCode(answer.error_code)
        if code == ErrorCode.rebalance_in_progress:
            self._rejoin()
        elif code in (ErrorCode.illegal_generation, ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            if code == ErrorCode.illegal_generation:
                self._give_up(list(self._own))
                self._join()
            else:
                self._fenced()
        else:
            if code is not None:
                self._link.note_answer(code)
            self._heartbeat_later()

    def _rejoin(self) -> None:
        """Commit the positions, revoke all partitions, and rejoin."""

        def go() -> None:
            self._give_up(list(self._own))
            self._join()

        if self._rng.chance(70):
            self._commit_own(go)
        else:
            go()


class ConsumerMember(GroupMember):
    """Speaks ConsumerGroupHeartbeat (KIP-848); the coordinator assigns the partitions. `generation` is its member epoch.

    It revokes partitions before it takes new ones, and reports that in its next heartbeat.
    """

    is_classic = False
    _says_all = False

    def _join(self) -> None:
        self._begin_round()
        self.generation = JOINING
        self._heartbeat()

    def _fields(self, epoch: int) -> Fields:
        group = self._group
        # after a lost response the member sends its full state, so that the coordinator does the same
        is_joining = epoch == JOINING or self._says_all
        owned: dict[Any, list[int]] = {}
        for topic, partition in self._own:
            owned.setdefault(group.view.topic_ids[topic], []).append(partition)
        return {
            "group_id": group.group_id,
            "member_id": self.member_id,
            "member_epoch": epoch,
            "instance_id": self._instance,
            "rack_id": None,
            "rebalance_timeout": ms(group.rebalance_ms if is_joining else -1),
            "subscribed_topic_names": group.topics if is_joining else None,
            "server_assignor": None,
            "topic_partitions": [{"topic_id": topic_id, "partitions": each} for topic_id, each in owned.items()],
        }

    def _heartbeat(self) -> None:
        self._send(GROUP_HEARTBEAT, self._fields(self.generation), self._on_heartbeat)

    def _on_heartbeat(self, answer: Any | None) -> None:
        code = None if answer is None else ErrorCode(answer.error_code)
        if answer is None or code != NONE:
            if code in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id):
                self._fenced()
                return
            if code is not None:
                self._link.note_answer(code)
            self._says_all = True
            self._in_this_round(RETRY_US, self._heartbeat)
            return
        self._says_all = False
        if self.generation == JOINING:
            self._group.count("joins")
        elif self.generation != answer.member_epoch:
            self._group.count("rebalances")
        self.member_id = answer.member_id or self.member_id
        self.generation = answer.member_epoch
        if answer.assignment is None:
            self._has_all = self._has_all or not self._own
            self._in_this_round(HEARTBEAT_US, self._heartbeat)
            return
        partitions: list[Place] = []
        for topic in answer.assignment.topic_partitions:
            name = self._group.topic_name(topic.topic_id)
            if name is None:
                # created a moment ago: the view does not have its name yet, so refresh and send the full state again
                self._group.view.refresh(lambda: None)
                self._says_all = True
                continue
            partitions += [(name, each) for each in topic.partitions]
        self._group.history.owns(self._group.group_id, self.generation, self.owner, partitions)
        self._take(partitions)

    def _take(self, partitions: list[Place]) -> None:
        """Revoke first, then take the new partitions."""
        gone = [place for place in self._own if place not in partitions]

        def given_back() -> None:
            self._give_up([place for place in gone if place in self._own])
            self._has_all = False
            self._read_from_commits([place for place in partitions if place not in self._own], has_begun)

        def has_begun() -> None:
            self._has_all = True
            self._in_this_round(0 if gone else HEARTBEAT_US, self._heartbeat)

        if gone and self._rng.chance(80):
            self._commit_own(given_back)
        else:
            given_back()

    def _say_goodbye(self) -> None:
        epoch = LEAVING if self._instance is None else LEAVING_FOR_NOW
        self._send_once(GROUP_HEARTBEAT, self._fields(epoch))
