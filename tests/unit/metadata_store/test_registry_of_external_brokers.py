"""The registry of external brokers in a quorum's state: compare and set, and its place in snapshots."""

from yak.metadata_store.scripts import execute
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import StoreRequest
from yak.quorum.state_machine import StateMachine, read_snapshot, write_snapshot
from yak.quorum.voters import Voter, VoterSet


def call(state, **arguments):
    outcome = execute(state, StoreRequest("external_broker", arguments), 77)
    assert outcome.code == "OK"
    return outcome.value["is_written"], outcome.value["entries"]


def change(external_id, old, new, *, count, forgotten="", forgotten_entry=""):
    return {
        "external_id": external_id,
        "old": old,
        "new": new,
        "forgotten": forgotten,
        "forgotten_entry": forgotten_entry,
        "count": count,
    }


def bootstrapped():
    state = StoreState()
    execute(state, StoreRequest("bootstrap", {"new_cluster_id": "c", "new_incarnation_id": "i"}), 1)
    return state


def test_entry_is_replaced_only_if_the_registry_is_as_it_was_read():
    state = bootstrapped()
    assert call(state) == (False, {})
    assert call(state, **change(9, "", '{"a":1}', count=0)) == (True, {"9": '{"a":1,"changed_ms":77}'})
    held = state.external_brokers[9]
    for other in (change(9, "", "{}", count=1), change(9, held, "{}", count=0), change(8, "", "{}", count=0)):
        assert call(state, **other) == (False, {"9": held})
    wrong = change(8, "", '{"b":2}', count=1, forgotten=9, forgotten_entry="another")
    assert call(state, **wrong) == (False, {"9": held})
    right = wrong | {"forgotten_entry": held}
    assert call(state, **right) == (True, {"8": '{"b":2,"changed_ms":77}'})


def test_only_a_change_is_a_command():
    machine = StateMachine()
    assert machine.needs_command(StoreRequest("external_broker", change(9, "", "{}", count=0)))
    assert not machine.needs_command(StoreRequest("external_broker"))


def test_snapshot_of_the_quorum_has_the_registry():
    machine = StateMachine()
    machine.state = bootstrapped()
    call(machine.state, **change(9, "", '{"a":1}', count=0))
    restored, _voters = read_snapshot(write_snapshot(machine, VoterSet((Voter(1, "h", 1),)), 5))
    assert restored.state.external_brokers == machine.state.external_brokers
