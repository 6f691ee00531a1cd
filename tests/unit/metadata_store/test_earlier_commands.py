"""Commands that a quorum's log has of an earlier version: replayed, each has the records that it had then.

The hash chain covers every record. A broker whose log replays to another hash does not find its history, and nodes of
two versions in one quorum would no longer agree.
"""

import json
from pathlib import Path

from yak.metadata_store.scripts import execute
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import StoreRequest
from yak.quorum.state_machine import StateMachine

COMMANDS = json.loads((Path(__file__).parent / "commands_of_7b2f182c.json").read_text())
"""The log of one broker in a run of the simulator (`--metadata raft --brokers 3 --seed 50029`) at commit 7b2f182c: each
command, and the hash after it."""


def test_commands_of_an_earlier_version_have_the_records_that_they_had():
    machine = StateMachine()
    for command, expected in COMMANDS:
        machine.apply(json.dumps(command).encode())
        assert machine.state.cluster.get("h", "") == expected, command


def test_commands_of_an_earlier_version_are_of_most_kinds():
    assert len({command["script"] for command, _ in COMMANDS}) == 15


def register(**more):
    state = StoreState()
    ids = {"new_cluster_id": "c", "new_incarnation_id": "i"}
    assert execute(state, StoreRequest("bootstrap", {"node_id": 1, **ids}), 1).code == "OK"
    broker = {
        "node_id": 1,
        "boot_id": "b",
        "directories": "d",
        "host": "h",
        "port": 9092,
        "rack": None,
        "role": "leader",
    }
    asked = broker | {"lossy": False, "last_epoch": 0, **more}
    outcome = execute(state, StoreRequest("register", asked, state.cluster["mo"], state.cluster["h"]), 2)
    assert outcome.code == "OK", outcome
    return state.log[-1].payload


def test_registration_has_endpoints_only_if_the_broker_names_its_listeners():
    assert "endpoints" not in register()
    assert "endpoints" not in register(endpoints="")
    assert register(endpoints="A=SSL://h:1")["endpoints"] == "A=SSL://h:1"
