"""The common part of group members of both protocols.

A member reads its partitions from the group's committed offsets on, commits its positions, and may crash at any time. A
crashed member may still have a commit in flight, or send one late, as a paused process does when it resumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from yak.sim.clients import SimConsumer
from yak.sim.group_wire import (
    LEAVE,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    CoordinatorLink,
    Place,
    commit_request,
    fetch_error,
    fetch_request,
)
from yak.sim.history_checker.history import Outcome
from yak.sim.recording import CommitMark, Reading
from yak.sim.routing import Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yak.sim.groups import SimGroup
    from yak.sim.request_fields import Fields
    from yak.sim.seeded_random import SeededRandom

RETRY_US = 120_000
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
class _Own:
    """A partition that is read."""

    channel: Channel
    consumer: SimConsumer
    reading: Reading
    committed: int


class _Past(NamedTuple):
    """The commit that a member could have sent when it revoked its partitions."""

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
        self._own: dict[Place, _Own] = {}
        self._round = 0
        """Responses of earlier rounds are ignored: the member has rejoined, or is another process."""
        self._life = 0
        self._past: _Past | None = None
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
        """The partitions that it reads."""
        return list(self._own)

    def committed(self, place: Place) -> int:
        """The last committed offset of one of its partitions."""
        return self._own[place].committed

    @property
    def is_settled(self) -> bool:
        """Whether it has its assignment, and committed everything that it read."""
        return self._has_all and all(own.committed == own.consumer.position for own in self._own.values())

    def start(self) -> None:
        """Start the process."""
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
            process, member_id, generation, offsets = self.process, self.member_id, self.generation, self._positions()
            link = CoordinatorLink(self._group.view, self._rng.fork("late"), self._group.group_id)
            self._world.after(
                self._rng.between(1_000, 2_000 * self._group.session_ms),
                lambda: self._commit(link, process, member_id, generation, offsets, lambda _codes: link.close()),
            )
            self._group.count("commits by the dead")
        self._end()

    def leave(self) -> None:
        """Commit and leave the group."""
        if not self.is_running:
            return
        self.is_running = False
        self._group.count("members left")
        self._say_goodbye()
        self._end()

    def _say_goodbye(self) -> None:
        who = {"member_id": self.member_id, "group_instance_id": self._instance}
        fields = {"group_id": self._group.group_id, "members": [who]}
        link = CoordinatorLink(self._group.view, self._rng.fork("leave"), self._group.group_id)
        link.send(LEAVE, fields, lambda _answer: link.close())

    def _end(self) -> None:
        self._round += 1
        self._has_all = False
        self._give_up(list(self._own))
        self._link.close()
        self._is_committing = False

    def _begin_round(self) -> None:
        self._round += 1
        self._has_all = False
        self._is_committing = False

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

    def _read_from_commits(self, places: Sequence[Place], then: Callable[[], None]) -> None:
        """Fetch the group's committed offsets of these partitions, and read on from there."""
        if not places:
            then()
            return
        asked_at = self._group.recorder.now

        def answered(answer: Any | None) -> None:
            code = None if answer is None else fetch_error(answer)
            if answer is None or code != NONE:
                self._link.heard(code or NONE)
                self._in_this_round(RETRY_US, lambda: self._read_from_commits(places, then))
                return
            starts = {
                (topic.name, each.partition_index): each.committed_offset
                for topic in answer.topics
                for each in topic.partitions
            }
            self._group.books.fetched(self._group.group_id, asked_at, starts, self.process)
            self._group.recorder.assigned(self.process, starts, group=self._group.group_id, asked_at=asked_at)
            for place, start in starts.items():
                self._read(place, start)
            then()

        self._send(OFFSET_FETCH, fetch_request(self._group.group_id, places), answered)

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
            retry_us=RETRY_US,
            bytes_min=2_048,
            read_committed=self.read_committed,
        )
        consumer.position = max(0, start)
        self._own[place] = _Own(channel, consumer, reading, start)
        consumer.start()

    def _reading(self, place: Place) -> Reading:
        return Reading(self._group.cluster_books, self._group.recorder, self.process, place, self._group.read)

    def hurry(self) -> None:
        """Read on with the group's present pause, which is shorter."""
        for own in self._own.values():
            own.consumer.pause_us = self._group.fetch_pause_us

    def _give_up(self, places: Sequence[Place]) -> None:
        if places:
            self._past = _Past(self.process, self.member_id, self.generation, self._positions())
            self._group.recorder.assigned(self.process, {}, dropped=tuple(places), group=self._group.group_id)
        for place in places:
            own = self._own.pop(place)
            own.consumer.is_stopped = own.reading.is_over = True
            own.channel.close()

    # ---------------------------------------------------------------------------------------------------- commits

    def _positions(self) -> dict[Place, int]:
        return {place: own.consumer.position for place, own in self._own.items()}

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

        self._commit(self._link, self.process, self.member_id, self.generation, moved, ended)

    def _commit_late(self) -> None:
        """Send a delayed commit of the previous generation, which every coordinator must refuse."""
        past, self._past = self._past, None
        if past is None or (past.member_id, past.generation) == (self.member_id, self.generation):
            return
        self._group.count("commits of the generation before")
        self._commit(self._link, *past, lambda _codes: None)

    def _commit(
        self,
        link: CoordinatorLink,
        process: str,
        member_id: str,
        generation: int,
        offsets: Mapping[Place, int],
        then: Callable[[Mapping[Place, ErrorCode]], None],
    ) -> None:
        group = self._group
        commit = group.books.commits(process, group.group_id, generation, offsets)
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
                link.heard(code)
                if code != NONE:
                    group.count(f"commits refused: {code.name}")
            group.books.committed(group.group_id, commit, outcome, is_classic=self.is_classic)
            then(codes)

        fields = commit_request(group.group_id, member_id, generation, self._instance, offsets, mark)
        link.send(OFFSET_COMMIT, fields, answered)
