"""Clients that join, leave, die, give back slowly and lose answers, topics that grow and go, coordinators that fall.

What must hold at every moment: no partition is used by two, neither by what the coordinator recorded nor by what the
clients believe. And once the world is quiet, everybody has its target, and the targets cover all that is subscribed to.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.groups.consumer.group_model import Topics, assigned, parts
from tests.unit.groups.consumer.migration_model import Migrating
from yak.errors import ErrorCode, PeerError
from yak.groups.consumer.consumer_protocol import with_ids
from yak.groups.consumer.partitions import NO_PARTITIONS, Partitions, by_topic
from yak.groups.consumer.settings import ConsumerGroupSettings, MigrationPolicy
from yak.groups.consumer.topics import ids_of

NAMES = ["ta", "tb", "ua", "ub"]
REGEXES = ["t.*", ".*a", "nothing"]
REBALANCE_TIMEOUT_MS = 30_000


@dataclass
class Client:
    """A consumer as KIP-848 has it. `using` is what it reads now, `wanted` what the coordinator said it may use, `told`
    what it last said that it uses: it says so again only when that changed."""

    member_id: str
    names: frozenset[str]
    regex: str | None
    instance_id: str | None
    assignor: str | None
    is_classic: bool = False
    epoch: int = 0
    using: Partitions = NO_PARTITIONS
    wanted: Partitions = NO_PARTITIONS
    told: Partitions = NO_PARTITIONS
    must_say_all: bool = True
    is_dead: bool = False

    def lose_all(self) -> None:
        self.epoch, self.must_say_all = 0, True
        self.using = self.wanted = self.told = NO_PARTITIONS


class Group(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.one = Migrating(Topics(), ConsumerGroupSettings(migration_policy=MigrationPolicy.UPGRADE))
        self.clients: dict[str, Client] = {}
        self.made = 0

    @initialize(sizes=st.lists(st.integers(0, 4), min_size=2, max_size=2))
    def topics(self, sizes: list[int]) -> None:
        for name, size in zip(("ta", "ub"), sizes, strict=True):
            self.one.topics.put(name, size)

    # ------------------------------------------------------------------------------------------------- the clients

    @rule(
        names=st.frozensets(st.sampled_from(NAMES), max_size=3),
        regex=st.none() | st.sampled_from(REGEXES),
        instance_id=st.none() | st.sampled_from(["i", "j"]),
        assignor=st.sampled_from([None, None, "uniform", "range"]),
        is_classic=st.booleans(),
    )
    def a_client_starts(
        self, names: frozenset[str], regex: str | None, instance_id: str | None, assignor: str | None, is_classic: bool
    ) -> None:
        if len(self.living()) >= 6 or any(one.instance_id == instance_id for one in self.living() if instance_id):
            return
        self.made += 1
        client = Client(f"m{self.made}", names, None if is_classic else regex, instance_id, assignor, is_classic)
        self.clients[client.member_id] = client
        self.heartbeat(client)

    @precondition(lambda self: self.living())
    @rule(data=st.data(), answer_is_lost=st.booleans())
    def a_client_beats(self, data: st.DataObject, answer_is_lost: bool) -> None:
        self.heartbeat(data.draw(st.sampled_from(self.living())), answer_is_lost=answer_is_lost)

    @precondition(lambda self: self.living())
    @rule(data=st.data())
    def a_client_obeys(self, data: st.DataObject) -> None:
        """It stops using what it may not use, and begins with what it may, whether or not it could say so first."""
        client = data.draw(st.sampled_from(self.living()))
        if not client.is_classic:
            client.using = client.wanted

    @precondition(lambda self: self.living())
    @rule(data=st.data(), names=st.frozensets(st.sampled_from(NAMES), max_size=3))
    def a_client_changes_its_mind(self, data: st.DataObject, names: frozenset[str]) -> None:
        client = data.draw(st.sampled_from(self.living()))
        client.names, client.must_say_all = names, True

    @precondition(lambda self: self.living())
    @rule(data=st.data())
    def a_client_leaves(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.living()))
        client.is_dead, client.using = True, NO_PARTITIONS
        if client.epoch > 0:
            self.say_goodbye(client, -1)

    @precondition(lambda self: any(one.instance_id and one.epoch > 0 for one in self.living()))
    @rule(data=st.data())
    def a_static_client_restarts(self, data: st.DataObject) -> None:
        static = [one for one in self.living() if one.instance_id and one.epoch > 0]
        client = data.draw(st.sampled_from(static))
        client.is_dead, client.using = True, NO_PARTITIONS
        self.say_goodbye(client, -2)

    @precondition(lambda self: self.living())
    @rule(data=st.data())
    def a_client_dies(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.living()))
        client.is_dead, client.using = True, NO_PARTITIONS

    # ------------------------------------------------------------------------------------------------- the world

    @rule(name=st.sampled_from(NAMES), more=st.integers(0, 3))
    def a_topic_is_made_or_grows(self, name: str, more: int) -> None:
        topic_id = self.one.topics.topic_id(name)
        self.one.topics.put(name, more + (self.one.topics.num_partitions(topic_id) if topic_id else 0))

    @precondition(lambda self: self.one.topics.ids)
    @rule(data=st.data())
    def a_topic_is_deleted(self, data: st.DataObject) -> None:
        self.one.topics.remove(data.draw(st.sampled_from(sorted(self.one.topics.ids))))

    @rule(ms=st.sampled_from([100, 5_000, 15_000]))
    def time_passes(self, ms: int) -> None:
        """Living clients beat every five seconds, as they were told."""
        for _ in range(max(1, ms // 5_000)):
            for client in self.living():
                self.heartbeat(client)
            self.one.pass_time(min(ms, 5_000))

    @rule(compacted=st.booleans())
    def the_coordinator_falls(self, compacted: bool) -> None:
        if compacted:
            self.one.compact()
        self.one.fail_over()

    @rule()
    def the_world_is_quiet(self) -> None:
        """Everybody arrives at its target, and stays there."""
        for _ in range(30):
            for client in self.living():
                if not client.is_classic:
                    client.using = client.wanted
                self.heartbeat(client)
            self.one.pass_time(5_000)
        state = self.one.group.state
        assert state.state_name == ("Stable" if self.living() else "Empty")
        assert sorted(state.members) == sorted(one.member_id for one in self.living())
        topics = self.one.topics
        meant = {name for member in state.members.values() for name in state.topic_names_of(member)}
        wanted = {(each, index) for each in ids_of(meant, topics) for index in range(topics.num_partitions(each))}
        assert {one for held in state.targets.values() for one in held} == wanted
        for client in self.living():
            member = state.members[client.member_id]
            assert member.topic_names == client.names
            assert client.using == client.wanted == member.assigned == state.target_of(client.member_id)
        written, epoch = len(self.one.log), state.epoch
        for client in self.living():
            self.heartbeat(client)
        assert (len(self.one.log), self.one.group.state.epoch) == (written, epoch)

    @invariant()
    def nobody_uses_what_another_uses(self) -> None:
        used = [partition for client in self.living() for partition in client.using]
        assert len(used) == len(set(used))

    @invariant()
    def who_uses_something_holds_it(self) -> None:
        for client in self.living():
            member = self.one.group.state.members.get(client.member_id)
            if member is not None and client.epoch > 0:
                # Classic clients name topics; of one that is gone there is nothing left to use.
                there = {partition for partition in client.using if self.one.topics.name(partition[0])}
                assert there <= member.held

    # ------------------------------------------------------------------------------------------------- parts

    def living(self) -> list[Client]:
        return [client for client in self.clients.values() if not client.is_dead]

    def say_goodbye(self, client: Client, epoch: int) -> None:
        """It may be too late: its session ended, or another took its place."""
        if client.is_classic:
            # A static one says nothing when it is restarted.
            if epoch == -1:
                self.one.leave_classic((client.member_id, client.instance_id))
            return
        with contextlib.suppress(PeerError):
            self.one.heartbeat(client.member_id, epoch, instance_id=client.instance_id)

    def heartbeat(self, client: Client, *, answer_is_lost: bool = False) -> None:
        """A client says all when it joins or does not know what of its last words arrived; else what changed."""
        if client.is_classic:
            self.classic_heartbeat(client, answer_is_lost=answer_is_lost)
            return
        said: dict[str, Any] = {}
        if client.using != client.told:
            said["owned"] = client.using
        if client.must_say_all:
            said["owned"] = client.using
            said |= {
                "topics": sorted(client.names),
                "regex": client.regex or "",
                "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
                "instance_id": client.instance_id,
                "assignor": client.assignor,
            }
        try:
            answer = self.one.heartbeat(client.member_id, client.epoch, **said)
        except PeerError as error:
            self.refused(client, error.error_code)
            return
        if answer_is_lost:
            client.must_say_all = True
            return
        if "owned" in said:
            client.told = client.using
        client.epoch, client.must_say_all = answer.member_epoch, False
        wanted = assigned(answer)
        if wanted is not None:
            client.wanted = wanted

    def classic_heartbeat(self, client: Client, *, answer_is_lost: bool) -> None:
        """A cooperative consumer (KIP-429): told to rejoin, it goes on with what it has, says so, and fetches what it may."""
        try:
            if client.epoch > 0 and not client.must_say_all:
                code = self.one.heartbeat_classic(client.member_id, client.epoch, client.instance_id)
                if code is ErrorCode.none:
                    return
                assert code is ErrorCode.rebalance_in_progress
            answer = self.one.join_classic(
                "" if client.epoch == 0 and client.instance_id else client.member_id,
                *sorted(client.names),
                owned=self.named(client.using),
                instance_id=client.instance_id,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                new_member_id=client.member_id,
            )
            # Without the answer to its SyncGroup it joins again: no record tells the next coordinator to expect one.
            client.epoch, client.must_say_all = answer["generation_id"], answer_is_lost
            if not answer_is_lost:
                given = self.one.sync_classic(client.member_id, client.epoch, instance_id=client.instance_id)
                client.wanted = with_ids(given.items(), self.one.topics)
                client.using = client.wanted
        except PeerError as error:
            self.classic_refused(client, error.error_code)

    def classic_refused(self, client: Client, code: ErrorCode) -> None:
        if code is ErrorCode.rebalance_in_progress:
            return
        assert code in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation, ErrorCode.fenced_instance_id)
        client.lose_all()
        client.is_dead = code is ErrorCode.fenced_instance_id

    def named(self, partitions: Partitions) -> dict[str, list[int]]:
        named = [(self.one.topics.name(topic_id), numbers) for topic_id, numbers in by_topic(partitions)]
        return {name: numbers for name, numbers in named if name is not None}

    def refused(self, client: Client, code: ErrorCode) -> None:
        if code is ErrorCode.unreleased_instance_id:
            assert client.epoch == 0, "its predecessor died without a word; it tries again until that session ends"
            return
        assert code in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id)
        client.lose_all()
        if code is ErrorCode.fenced_instance_id:
            client.is_dead = True


TestGroup = Group.TestCase
TestGroup.settings = hypothesis_settings(max_examples=200, stateful_step_count=50)


def test_the_machine_can_fail() -> None:
    """A client that uses what it must give back is caught, so the property above is not empty."""
    machine = Group()
    machine.one.topics.put("ta", 2)
    for member_id in ("a", "b"):
        machine.clients[member_id] = Client(member_id, frozenset(["ta"]), None, None, None)
    first, second = machine.clients.values()
    machine.heartbeat(first)
    first.using = first.wanted
    assert first.using == parts("ta", 0, 1)
    second.using = parts("ta", 1)
    try:
        machine.nobody_uses_what_another_uses()
    except AssertionError:
        return
    raise AssertionError("two users of one partition were not noticed")
