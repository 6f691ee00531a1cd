"""The store as a state machine: the same calls have the same effects, and a refused call has none."""

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from yak.metadata_store.content import rows_of, state_of
from yak.metadata_store.scripts import execute
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import StoreRequest

TOPIC_IDS = ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"]
NODES = st.integers(1, 3)
EPOCHS = st.integers(0, 12)
SMALL = st.integers(0, 3)
ISRS = st.lists(st.tuples(NODES, EPOCHS), max_size=3).map(
    lambda them: ",".join(f"{node}@{epoch}" for node, epoch in them)
)
REPLICAS = st.lists(NODES, min_size=1, max_size=3, unique=True).map(lambda nodes: ",".join(map(str, nodes)))
BEAT = {"persisted": 12, "controller_epoch": 1}
TOPICS = st.sampled_from(TOPIC_IDS)


def arguments(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields)


def partitions(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    item = st.fixed_dictionaries({"topic_id": TOPICS, "partition": SMALL, **fields})
    return arguments(partitions=st.lists(item, max_size=2))


CALLS = {
    "bootstrap": arguments(new_cluster_id=st.just("c"), new_incarnation_id=st.just("i")),
    "register": arguments(
        boot_id=st.sampled_from("ab"),
        directories=st.sampled_from(["d1", "d2"]),
        host=st.just("h"),
        port=st.just(9092),
        rack=st.none(),
        role=st.sampled_from(["leader", "follower"]),
        lossy=st.booleans(),
        observed_heartbeat=SMALL,
        last_epoch=EPOCHS,
        persisted=EPOCHS,
    ),
    "heartbeat": arguments(persisted=EPOCHS, is_full=st.booleans()),
    "acquire_lease": arguments(claimed_epoch=SMALL, claimed_renewals=SMALL, fast=st.booleans()),
    "unfence": arguments(target_id=NODES, target_epoch=EPOCHS),
    "fence": arguments(target_id=NODES, target_epoch=EPOCHS, fast=st.booleans()),
    "begin_stop": arguments(state=st.sampled_from(["STOPPING", "CLOSED", "ACTIVE"])),
    "unregister": arguments(target_id=NODES),
    "create_topic": arguments(
        name=st.sampled_from(["a", "b"]),
        topic_id=TOPICS,
        total=st.integers(1, 2),
        configs=st.just({}),
        partitions=st.lists(st.fixed_dictionaries({"partition": SMALL, "replicas": REPLICAS}), max_size=2),
    ),
    "alter_isr": partitions(
        leader_epoch=SMALL, partition_epoch=SMALL, isr=ISRS, min_isr=st.integers(1, 2), nonce=st.sampled_from("xy")
    ),
    "leave_isr": partitions(lost=st.booleans(), yields_to=ISRS),
    "alloc_pid": arguments(),
    "verify": arguments(),
    "no_such_script": arguments(),
}
CALL = st.sampled_from(sorted(CALLS)).flatmap(lambda script: st.tuples(st.just(script), CALLS[script]))
CALLER = arguments(node_id=NODES, broker_epoch=EPOCHS, controller_epoch=SMALL)
WALKS = st.lists(st.tuples(CALL, CALLER, st.integers(0, 2_000)), max_size=25)


def cluster() -> StoreState:
    """Three active brokers, of which the first is the controller."""
    state = StoreState()
    execute(state, StoreRequest("bootstrap", {"new_cluster_id": "c", "new_incarnation_id": "i"}), 0)
    broker = {"boot_id": "a", "host": "h", "port": 1, "rack": None, "role": "leader", "lossy": False}
    for node_id in (1, 2, 3):
        execute(state, StoreRequest("register", {**broker, "node_id": node_id, "directories": f"d{node_id}"}), 0)
    me = {"node_id": 1, "broker_epoch": state.brokers[1]["broker_epoch"], "controller_epoch": 1}
    execute(state, StoreRequest("acquire_lease", me), 0)
    for node_id, known in state.brokers.items():
        execute(
            state, StoreRequest("heartbeat", {"node_id": node_id, **BEAT, "broker_epoch": known["broker_epoch"]}), 0
        )
        target = {"target_id": node_id, "target_epoch": known["broker_epoch"]}
        assert execute(state, StoreRequest("unfence", me | target), 0).code == "OK"
    return state


def requests(walk: list[Any], state: StoreState) -> Any:
    """The calls of a walk, made so by most callers that they are not refused for an epoch alone."""
    for (script, fields), caller, pause_ms in walk:
        known = state.brokers.get(caller["node_id"])
        if known is not None and caller["broker_epoch"] % 4:
            epochs = {"broker_epoch": known["broker_epoch"], "controller_epoch": state.cluster["ctl_epoch"]}
            caller = caller | epochs
        yield StoreRequest(script, {**caller, **fields}), pause_ms


@given(walk=WALKS)
@settings(max_examples=150)
def test_refused_call_changes_nothing_and_a_repeated_walk_ends_in_the_same_state(walk):
    state, now_ms, done = cluster(), 1_000, []
    for request, pause_ms in requests(walk, state):
        now_ms += pause_ms
        before = copy.deepcopy(state)
        outcome = execute(state, request, now_ms)
        done.append((request, now_ms, outcome))
        if outcome.code != "OK":
            assert state == before
    again = cluster()
    for request, at_ms, outcome in done:
        assert execute(again, request, at_ms) == outcome
    assert again == state


@given(walk=WALKS)
@settings(max_examples=100)
def test_rows_of_a_state_make_the_same_state(walk):
    state, now_ms = cluster(), 1_000
    for request, pause_ms in requests(walk, state):
        now_ms += pause_ms
        execute(state, request, now_ms)
    # offsets that brokers report again are not part of the content
    state.high_watermarks.clear()
    state.log_end_offsets.clear()
    rows = json.loads(json.dumps(rows_of(state)))
    assert state_of(rows) == state
    assert rows_of(state_of(rows)) == rows
