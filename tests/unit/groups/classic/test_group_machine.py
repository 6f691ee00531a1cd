"""Any order of joins, syncs, heartbeats, departures, deaths, failed writes and moves of the coordinator.

Each simulated client does what a Kafka client does with each answer. Then, when all are left in peace, they settle: one
generation, every member with what its leader gave it.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.groups.classic.rig import NONE, Held, Rig
from yak.errors import ErrorCode
from yak.groups.classic.group import ClassicState

SESSION_MS, REBALANCE_MS = 6_000, 20_000
CLIENTS = st.integers(0, 4)


class Client:
    """A consumer: what it knows, and the request that it waits for."""

    def __init__(self, number: int) -> None:
        self.instance = f"i{number}" if number == 0 else None
        self.member_id = ""
        self.generation = -1
        self.is_alive = False
        self.assignment: bytes | None = None
        self.joining: Held | None = None
        self.syncing: Held | None = None

    def forget(self) -> None:
        self.member_id, self.generation, self.assignment = "", -1, None
        self.joining = self.syncing = None


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.clients = [Client(number) for number in range(5)]
        self.owners: dict[int, dict[str, bytes]] = {}
        """What each generation's leader gave to whom."""
        self.highest = 0

    # what a client does

    def step(self, client: Client) -> None:
        """Let one client do its next thing."""
        client.is_alive = True
        if client.joining is None and client.syncing is None:
            if client.assignment is None:
                self._join(client)
            else:
                self._beat(client)
        self._look(client)

    def _join(self, client: Client) -> None:
        client.joining = self.rig.join(
            client.member_id,
            instance=client.instance,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            twice=client.instance is None,
        )

    def _beat(self, client: Client) -> None:
        code = self.rig.heartbeat(client.member_id, client.generation, client.instance)
        if code in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id, ErrorCode.illegal_generation):
            client.forget()
        elif code == ErrorCode.rebalance_in_progress:
            client.assignment = None
        else:
            assert code == NONE

    def _look(self, client: Client) -> None:
        """Take the answers that have come."""
        held = client.joining
        if held is not None and held.fields is not None:
            client.joining = None
            self._joined(client, held)
        held = client.syncing
        if held is not None and held.fields is not None:
            client.syncing = None
            if held.error == NONE:
                given = self.owners[client.generation].get(client.member_id, b"")
                assert held["assignment"] == given, "an assignment that its leader did not give"
                client.assignment = held["assignment"]
            elif held.error == ErrorCode.rebalance_in_progress or held.error == ErrorCode.coordinator_not_available:
                pass
            else:
                client.forget()

    def _joined(self, client: Client, held: Held) -> None:
        if held.error == ErrorCode.member_id_required:
            client.member_id = held["member_id"]
        elif held.error == NONE:
            assert held["generation_id"] >= client.generation
            client.member_id, client.generation = held["member_id"], held["generation_id"]
            is_leader = held["leader"] == held["member_id"]
            given: dict[str, bytes] = {}
            if is_leader and not held["skip_assignment"]:
                assert held["members"], "a leader must know whom it assigns to"
                given = {
                    each["member_id"]: f"{held['generation_id']}:{each['member_id']}".encode()
                    for each in held["members"]
                }
                self.owners[client.generation] = given
            if held["skip_assignment"] or client.instance is not None:
                # what its old self had is still its own
                owners = self.owners.setdefault(client.generation, {})
                member = self.rig.group.members.get(client.member_id)
                if member is not None and self.rig.group.state is ClassicState.STABLE:
                    owners[client.member_id] = member.assignment
            client.syncing = self.rig.sync(held, given, instance_id=client.instance)
        elif held.error == ErrorCode.unknown_member_id or held.error == ErrorCode.fenced_instance_id:
            client.forget()

    # what happens

    @rule(number=CLIENTS)
    def act(self, number: int) -> None:
        self.step(self.clients[number])

    @rule(number=CLIENTS)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        if client.member_id:
            self.rig.leave(client.member_id, client.instance)
        self._lose(client)

    @rule(number=CLIENTS)
    def die(self, number: int) -> None:
        self._lose(self.clients[number])

    def _lose(self, client: Client) -> None:
        for held in (client.joining, client.syncing):
            if held is not None and held.fields is None:
                for member in list(self.rig.group.members.values()):
                    if held in (member.joining, member.syncing):
                        self.rig.group.ticket_lost(member, held, self.rig.now_ms)
                        break
        client.forget()
        client.is_alive = False

    @rule(ms=st.integers(1, 15_000))
    def wait(self, ms: int) -> None:
        self.rig.wait(ms)

    @rule()
    def hold_writes(self) -> None:
        self.rig.holds_writes = True

    @rule(fails=st.booleans())
    def end_writes(self, fails: bool) -> None:
        self.rig.holds_writes = False
        self.rig.flush(ErrorCode.coordinator_not_available if fails else NONE)

    @rule()
    def move(self) -> None:
        """The coordinator dies; the next one knows what was committed."""
        old = self.rig
        self.rig = old.reload()
        old.group.die(ErrorCode.not_coordinator)
        for client in self.clients:
            # it asks the next coordinator, with the id that it has
            client.joining = client.syncing = None
            if client.assignment is None and client.generation > self.rig.group.generation:
                client.generation = -1

    @invariant()
    def the_group_is_whole(self) -> None:
        group = self.rig.group
        assert group.generation >= 0
        if group.members:
            assert group.leader_id in group.members
        if group.state is ClassicState.EMPTY:
            assert not group.members
        if group.state is ClassicState.STABLE:
            assert group.members
            assert all(member.joining is None and member.syncing is None for member in group.members.values())
        if group.state is ClassicState.COMPLETING_REBALANCE:
            assert all(member.joining is None for member in group.members.values())
        for instance_id, member_id in group._static.items():
            assert group.members[member_id].instance_id == instance_id

    def teardown(self) -> None:
        """In peace, everyone who lives gets an assignment of one generation, and nobody else is left."""
        self.rig.holds_writes = False
        self.rig.flush()
        living = [client for client in self.clients if client.is_alive]
        for _ in range(40):
            for client in living:
                self.step(client)
            self.rig.wait(1_000)
        members = self.rig.group.members
        assert {client.member_id for client in living} == set(members)
        if living:
            assert self.rig.group.state is ClassicState.STABLE
            assert {client.generation for client in living} == {self.rig.group.generation}
            assert all(client.assignment is not None for client in living)
        else:
            assert self.rig.group.state is ClassicState.EMPTY


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=120, stateful_step_count=40)
