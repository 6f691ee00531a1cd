"""The replicated state: determinism, soft facts, snapshots."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.quorum.conftest import voter_set
from yak.errors import FailStop, ProtocolViolation
from yak.ports.metadata_store import StoreRequest
from yak.quorum.control_records import snapshot_footer
from yak.quorum.state_machine import (
    StateMachine,
    VolatileState,
    command_batch,
    facts_of_new_leader,
    read_snapshot,
    value_of,
    write_snapshot,
)
from yak.sim.quorum.reference import digest, whole_digest

IDS = {"new_cluster_id": "c", "new_incarnation_id": "i"}


class Leader:
    """A state machine with the soft facts of its leader."""

    def __init__(self) -> None:
        self.machine, self.facts, self.log = StateMachine(), VolatileState(), list[bytes]()
        self.now_ms = 100
        self.call("bootstrap", **IDS)

    def call(self, script: str, **arguments):
        self.now_ms += 1
        request = StoreRequest(script, arguments)
        if not self.machine.needs_command(request):
            return self.machine.execute_on_leader(request, self.facts, self.now_ms)
        value = value_of(command_batch(request, self.facts, self.now_ms))
        self.log.append(value)
        return self.machine.apply(value)

    def register(self, node_id: int = 1, **other: object) -> int:
        named = {"boot_id": f"b{node_id}", "directories": f"d{node_id}", "host": "h", "port": 1, "rack": None}
        more = {"role": "any", "lossy": False, "secret": "s", "broker_epoch": 0}
        return self.call("register", **{"node_id": node_id, **named, **more, **other}).value["broker_epoch"]

    def heartbeat(self, epoch: int, persisted: int, node_id: int = 1, **more):
        return self.call(
            "heartbeat", node_id=node_id, broker_epoch=epoch, persisted=persisted, controller_epoch=1, **more
        )

    def unfence(self, epoch: int):
        self.call("acquire_lease", node_id=1, broker_epoch=epoch)
        return self.call("unfence", node_id=1, broker_epoch=epoch, controller_epoch=1, target_id=1, target_epoch=epoch)

    def replay(self) -> StateMachine:
        other = StateMachine()
        for value in self.log:
            other.apply(value)
        return other


def test_a_command_of_a_newer_yak_stops_the_node_and_changes_nothing():
    leader = Leader()
    before = whole_digest(leader.machine)
    value = value_of(command_batch(StoreRequest("cordon", {"node_id": 1}), leader.facts, 200))
    with pytest.raises(FailStop, match=r"a newer YAK.*cordon"):
        leader.machine.apply(value)
    assert whole_digest(leader.machine) == before


def test_heartbeat_of_a_fenced_broker_is_no_command():
    leader = Leader()
    epoch = leader.register()
    commands = len(leader.log)
    assert leader.heartbeat(epoch, 0).code == "OK"
    assert len(leader.log) == commands
    assert leader.facts.brokers == {1: (epoch, 1, 0, False)}


def test_first_heartbeat_of_an_unfenced_broker_on_disk_is_a_command():
    leader = Leader()
    epoch = leader.register()
    leader.unfence(epoch)
    commands = len(leader.log)
    leader.heartbeat(epoch, epoch - 1)
    assert len(leader.log) == commands, "its registration is not on its disk"
    leader.heartbeat(epoch, epoch)
    leader.heartbeat(epoch, epoch)
    assert len(leader.log) == commands + 1
    assert leader.replay().state.brokers[1]["acted_epoch"] == epoch


def test_commands_carry_the_soft_facts_that_held():
    leader = Leader()
    epoch = leader.register()
    leader.heartbeat(epoch, epoch, is_full=True)
    leader.call("alloc_pid", node_id=1, broker_epoch=epoch)
    state = leader.replay().state
    assert (state.heartbeats[1], state.brokers[1]["persisted"], list(state.full)) == (1, epoch, [1])


def test_soft_facts_of_an_earlier_incarnation_do_not_count_but_for_the_metadata_on_its_disk():
    leader = Leader()
    epoch = leader.register()
    leader.heartbeat(epoch, epoch, is_full=True)
    facts = copy.deepcopy(leader.facts)
    leader.machine.state.brokers[1]["broker_epoch"] = epoch + 1
    facts.install(leader.machine.state)
    assert leader.machine.state.brokers[1]["persisted"] == epoch
    assert not leader.machine.state.full


@pytest.mark.parametrize("next_leader", [False, True])
def test_command_that_waited_behind_a_registration_keeps_the_metadata_of_the_incarnation_before(next_leader):
    leader = Leader()
    epoch = leader.register()
    leader.heartbeat(epoch, epoch + 5)
    before = copy.deepcopy(leader.facts)
    leader.register(boot_id="same disk", persisted=epoch + 5)
    # the leader appended it before the registration was applied
    request = StoreRequest("alloc_pid", {"node_id": 1, "broker_epoch": epoch})
    leader.machine.apply(value_of(command_batch(request, before, leader.now_ms)))
    leader.facts = facts_of_new_leader(leader.machine.state, 2) if next_leader else before
    leader.register(boot_id="older disk", persisted=epoch + 4)
    assert leader.machine.state.brokers[1]["lossy"] is True


def test_soft_facts_round_trip():
    facts = VolatileState(7, {1: (3, 5, 9, True), 2: (4, 0, 0, False)})
    assert VolatileState.from_json(json.loads(json.dumps(facts.as_json()))) == facts


def test_new_leader_moves_every_counter():
    leader = Leader()
    epoch = leader.register()
    leader.heartbeat(epoch, epoch)
    leader.unfence(epoch)
    old = VolatileState.of_state(leader.machine.state)
    new = facts_of_new_leader(leader.machine.state, 3)
    assert new.lease_renewals > old.lease_renewals
    assert new.brokers[1][1] > old.brokers[1][1]
    assert new.brokers[1][2] == epoch


def test_report_of_high_watermarks_stays_with_the_leader():
    leader = Leader()
    epoch = leader.register()
    commands = len(leader.log)
    leader.call("report_hw", node_id=1, broker_epoch=epoch, partitions=[])
    assert len(leader.log) == commands


calls = st.lists(
    st.tuples(st.sampled_from(["register", "beat", "unfence", "pid", "topic", "delete", "config"]), st.integers(1, 3)),
    max_size=25,
)


def execute(leader: Leader, steps) -> None:
    epochs: dict[int, int] = {}
    for step, number in steps:
        epoch = epochs.get(number, 0)
        base = {"node_id": number, "broker_epoch": epoch, "controller_epoch": 1}
        if step == "register":
            epochs[number] = leader.register(number)
        elif step == "beat":
            leader.heartbeat(epoch, epoch, number, is_full=number == 2)
        elif step == "unfence" and epochs.get(1):
            leader.unfence(epochs[1])
        elif step == "pid":
            leader.call("alloc_pid", **base)
        elif step == "topic":
            partitions = [{"partition": 0, "replicas": "1"}]
            leader.call(
                "create_topic", **base, name=f"t{number}", topic_id=f"i{number}", total=1, partitions=partitions,
                configs={"a": "b"},
            )  # fmt: skip
        elif step == "delete":
            leader.call("delete_topic", **base, topic_id=f"i{number}")
        elif step == "config":
            leader.call(
                "alter_configs", **base, resource_type="broker", resource_name="", changes=[["k", str(number)]],
                replace=False,
            )  # fmt: skip


@given(calls)
@settings(max_examples=60)
def test_replay_of_the_commands_gives_the_leaders_state_soft_facts_aside(steps):
    leader = Leader()
    execute(leader, steps)
    assert digest(leader.replay().state) == digest(leader.machine.state)
    assert whole_digest(leader.replay()) == whole_digest(leader.replay())


@given(calls, calls)
@settings(max_examples=60)
def test_snapshot_round_trips_and_the_state_continues_as_before(steps, more):
    leader = Leader()
    execute(leader, steps)
    replayed = leader.replay()
    data = write_snapshot(replayed, voter_set(1, 2), 7)
    restored, voters = read_snapshot(data)
    assert voters == voter_set(1, 2)
    assert whole_digest(restored) == whole_digest(replayed)
    assert restored.state.log == replayed.state.log
    assert write_snapshot(restored, voters, 7) == data
    before = len(leader.log)
    execute(leader, more)
    for value in leader.log[before:]:
        assert restored.apply(value) == replayed.apply(value)
    assert whole_digest(restored) == whole_digest(replayed)


def test_snapshot_without_its_footer_or_voters_is_refused():
    data = write_snapshot(Leader().machine, voter_set(1), 7)
    with pytest.raises(ProtocolViolation):
        read_snapshot(data[: -len(snapshot_footer(7))])
    with pytest.raises(ProtocolViolation):
        read_snapshot(snapshot_footer(7))


def test_records_after_an_offset_come_in_order():
    leader = Leader()
    for node_id in (1, 2, 3):
        leader.register(node_id)
    found = leader.machine.state.records_after(1, 2)
    assert [record.offset for record in found] == [2, 3]
    assert leader.machine.state.records_after(4, 5) == []


def test_broker_that_stopped_in_order_is_not_full_any_more():
    leader = Leader()
    epoch, other = leader.register(), leader.register(2)
    leader.unfence(epoch)
    leader.heartbeat(other, other, node_id=2, is_full=True)
    assert leader.heartbeat(epoch, epoch).value["full"] == [2]
    leader.call("begin_stop", node_id=2, broker_epoch=other, state="CLOSED")
    assert "full" not in leader.heartbeat(epoch, epoch).value
    assert leader.machine.state.full == {}
