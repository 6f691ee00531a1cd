"""The move of a cluster's metadata from one store to the other: states, refusals, and the same content in both."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from support.store_walk import random_step, take_answer
from support.stores import Backend, Caller, MemoryBackend, RedisBackend, brokers, topic_id_of

from yak.cluster.snapshot import write_snapshot
from yak.metadata_store.content import with_snapshot
from yak.ports.metadata_store import StoreOutcome
from yak.server.redis_projection import _SCRIPT

MOVES = ("export_metadata", "open_imported", "close_exported", "cancel_export")


@pytest.fixture(params=["memory", "redis"])
def other(request, connected):
    """The store to which the metadata move."""
    return MemoryBackend() if request.param == "memory" else RedisBackend(connected, keep_dumps=False)


@pytest.fixture
def two(backend):
    """Two brokers, a topic on both, and configs."""
    found = brokers(backend, 2)
    assert found[0].create("a", replicas=("1,2", "2"), configs={"min.insync.replicas": "2"}).code == "OK"
    assert found[0].alter("quota", "ip=<default>", [["connection_creation_rate", "5.0"]]).code == "OK"
    assert found[0].alter("acl", "TOPIC,PREFIXED,a", [["ALLOW,READ,*,User:ann", ""]]).code == "OK"
    return [caller.catch_up() for caller in found]


def at(caller: Caller, backend: Backend) -> Caller:
    """The same broker, which calls this store."""
    moved = Caller(backend, caller.who["node_id"])
    moved.who, moved.image, moved.controller_epoch = dict(caller.who), caller.image, caller.controller_epoch
    return moved


def run(caller: Caller, script: str, migration_id: int, **more: Any) -> StoreOutcome:
    return caller(script, migration_id=migration_id, **more)


def code(caller: Caller, script: str, migration_id: int, **more: Any) -> str:
    return run(caller, script, migration_id, **more).code


def exported(caller: Caller, migration_id: int) -> dict[str, Any]:
    outcome = run(caller, "export_metadata", migration_id)
    assert outcome.code == "OK", outcome
    return outcome.value["content"]


def moved(caller: Caller, backend: Backend, migration_id: int) -> Caller:
    """Move the metadata to this store; returns the broker there."""
    there = at(caller, backend)
    content = exported(caller, migration_id)
    assert code(there, "import_metadata", migration_id, content=content, state="IMPORTED") == "OK"
    assert code(caller, "close_exported", migration_id) == "OK"
    assert code(there, "open_imported", migration_id) == "OK"
    return there


def plain(rows: dict[str, Any], *, with_chain: bool = True) -> dict[str, Any]:
    """Rows without their order, the text form of JSON, and what a move changes; by default with hashes and times."""
    hashes = {name: dict(fields) for name, fields in rows["hashes"]}
    for name in ("state", "migration_id", *(() if with_chain else ("h",))):
        hashes["cluster"].pop(name, None)
    for name, fields in hashes.items():
        if name.startswith("b:"):
            fields["fast_fenced_ms"] = "0"
    hashes["configs"] = {name: json.loads(configs) for name, configs in hashes.get("configs", {}).items()}
    if "snapshot" in hashes:
        hashes["snapshot"]["payload"] = json.loads(hashes["snapshot"]["payload"])
        if not with_chain:
            hashes["snapshot"] = {"offset": hashes["snapshot"]["offset"]}  # its payload has times too
    log = [[offset, kind, json.loads(payload), *rest] for offset, kind, payload, *rest in rows["log"]]
    return {
        "hashes": hashes,
        "sets": {name: list(nodes) for name, nodes in rows["sets"]},
        "secret": rows["secret"],
        "log": log if with_chain else [row[:3] for row in log],
    }


# ------------------------------------------------------------------------------------------------ states and refusals


def test_registry_of_external_brokers_moves_too(two, other):
    one, registry = two[0], ["guests", {"100": '{"host":"h","changed_ms":7}'}]
    content = exported(one, 3)
    there = at(one, other)
    more = content | {"hashes": [*content["hashes"], registry]}
    assert code(there, "import_metadata", 3, content=more, state="LIVE") == "OK"
    assert registry in [list(each) for each in exported(there, 4)["hashes"]]
    assert code(there, "close_exported", 4) == "OK"


def test_exported_store_refuses_all_other_scripts_until_the_export_is_cancelled(two):
    one = two[0]
    exported(one, 3)
    refused = [
        one("verify"),
        one("heartbeat", persisted=1),
        one.create("b"),
        one("bootstrap", new_cluster_id="x", new_incarnation_id="y"),
        one("seed_offer", incarnation=1, offer="x"),
        one.register(renew=True),
    ]
    assert {outcome.code for outcome in refused} == {"MIGRATING"}
    assert code(one, "cancel_export", 3) == "OK"
    assert code(one, "cancel_export", 3) == "OK"
    assert one("verify").code == "OK"
    assert run(one, "export_metadata", 2).value == {"migration_id": 3}


def test_imported_store_refuses_all_other_scripts_until_it_is_opened(two, other):
    one = two[0]
    there = at(one, other)
    assert code(there, "import_metadata", 3, content=exported(one, 3), state="IMPORTED") == "OK"
    assert there("verify").code == "MIGRATING"
    assert there("seed_offer", incarnation=1, offer="x").code == "MIGRATING"
    assert there("bootstrap", new_cluster_id="x", new_incarnation_id="y").code == "MIGRATING"
    assert code(there, "export_metadata", 4) == "MIGRATING"
    assert code(there, "open_imported", 3) == "OK"
    assert code(there, "open_imported", 3) == "OK"
    assert there("verify").code == "OK"


def test_moved_store_keeps_the_ids_of_the_cluster_only(two, other, backend):
    one = two[0]
    there = moved(one, other, 3)
    assert there("verify").code == "OK"
    assert code(one, "close_exported", 3) == "OK"
    assert one("verify").code == "MOVED"
    assert one("seed_offer", incarnation=1, offer="x").code == "MOVED"
    assert one("bootstrap", new_cluster_id="x", new_incarnation_id="y").code == "MOVED"
    stranger = Caller(backend)
    stranger.who["cluster_id"] = "other"
    assert stranger("verify").code == "WRONG_CLUSTER"
    outcome = one("verify")
    assert (outcome.offset, outcome.chain_hash) == (one.image.offset, one.image.chain_hash)
    assert backend.records() == []
    if isinstance(backend, RedisBackend):
        assert backend._keys() == [f"{backend.prefix}cluster".encode()]
        assert {name.decode() for name in backend.client.hkeys(f"{backend.prefix}cluster")} == {
            *("cluster_id", "incarnation", "incarnation_id", "state", "migration_id", "mo", "h")
        }
    else:
        assert set(backend.store.state.cluster) == {
            *("cluster_id", "incarnation", "incarnation_id", "state", "migration_id", "mo", "h")
        }
        assert not backend.store.state.brokers


@pytest.mark.parametrize("script", MOVES)
def test_script_of_a_migration_is_refused_by_an_empty_store_and_by_another_cluster(two, other, script):
    assert code(at(two[0], other), script, 3) == "NO_CLUSTER"
    stranger = at(two[0], two[0].backend)
    stranger.who["cluster_id"] = "other"
    refused = run(stranger, script, 3)
    assert (refused.code, refused.value) == ("WRONG_CLUSTER", {"cluster_id": "cluster-a"})


@pytest.mark.parametrize("script", [*MOVES, "import_metadata"])
def test_script_of_an_older_migration_is_stale(two, other, script):
    one = two[0]
    content = exported(one, 5)
    more = {"content": content, "state": "LIVE"} if script == "import_metadata" else {}
    refused = run(one, script, 4, **more)
    assert (refused.code, refused.value) == ("STALE_MIGRATION", {"migration_id": 5})
    there = moved(one, other, 6)
    for caller in (one, there):
        assert code(caller, script, 5, **more) == "STALE_MIGRATION"


def test_script_in_the_wrong_state_changes_nothing(two, other):
    one = two[0]
    for script in ("open_imported", "close_exported", "cancel_export"):
        refused = run(one, script, 3)
        assert (refused.code, refused.value["message"]) == ("BAD_REQUEST", "the store is LIVE in migration 0")
    there = at(one, other)
    content = exported(one, 3)
    assert code(one, "open_imported", 3) == "BAD_REQUEST"
    assert code(one, "close_exported", 4) == "BAD_REQUEST"
    assert code(there, "import_metadata", 3, content=content, state="IMPORTED") == "OK"
    assert code(there, "close_exported", 3) == "BAD_REQUEST"
    assert code(there, "cancel_export", 3) == "BAD_REQUEST"
    assert code(one, "close_exported", 3) == "OK"
    for script in ("open_imported", "cancel_export", "export_metadata"):
        assert code(one, script, 3) == "MOVED"
    assert code(one, "close_exported", 4) == "MOVED"


def test_export_is_repeated_and_replaced_by_a_newer_one(two):
    one = two[0]
    first = exported(one, 3)
    assert plain(exported(one, 3)) == plain(first)
    assert plain(exported(one, 4)) == plain(first)
    assert code(one, "cancel_export", 3) == "STALE_MIGRATION"
    assert code(one, "cancel_export", 4) == "OK"


def test_import_is_repeated_without_effect(two, other):
    one = two[0]
    there = at(one, other)
    content = exported(one, 3)
    for _ in range(2):
        assert code(there, "import_metadata", 3, content=content, state="LIVE") == "OK"
    assert there.create("b").code == "OK"
    assert code(there, "import_metadata", 3, content=content, state="LIVE") == "OK"
    assert "b" in there.catch_up().image.topics


def test_import_into_a_store_in_use_is_refused(two, other):
    content = exported(two[0], 3)
    busy = Caller(other).join()
    assert code(busy, "import_metadata", 3, content=content, state="LIVE") == "CLUSTER_IN_USE"
    busy.who["cluster_id"] = "another"
    assert code(busy, "import_metadata", 3, content=content, state="LIVE") == "WRONG_CLUSTER"


def test_import_replaces_an_abandoned_import_and_export(two, other):
    one = two[0]
    there = at(one, other)
    old = exported(one, 3)
    assert code(there, "import_metadata", 3, content=old, state="IMPORTED") == "OK"
    assert code(one, "cancel_export", 3) == "OK"
    one.create("b")
    one.catch_up()
    assert code(there, "import_metadata", 4, content=exported(one, 4), state="IMPORTED") == "OK"
    assert code(there, "open_imported", 4) == "OK"
    assert "b" in at(one, other).catch_up().image.topics
    frozen = exported(there, 5)
    assert code(there, "import_metadata", 6, content=old, state="LIVE") == "OK"
    assert plain(exported(there, 7)) == plain(old)
    assert plain(frozen) != plain(old)


def test_store_that_waits_for_a_restore_takes_no_part_in_a_migration(two, other):
    content = exported(two[0], 3)
    there = at(two[0], other)
    assert there("seed_offer", incarnation=1, offer="x").code == "OK"
    assert code(there, "export_metadata", 3) == "SEEDING"
    assert code(there, "import_metadata", 3, content=content, state="LIVE") == "SEEDING"
    assert code(there, "open_imported", 3) == "BAD_REQUEST"


def test_damaged_content_is_refused(two, other):
    there = at(two[0], other)
    content = exported(two[0], 3)
    short = content | {"log": content["log"][:-1]}
    gap = content | {"log": [content["log"][0], *content["log"][2:]]}
    for damaged in (short, gap, content | {"log": {}}, content | {"hashes": []}):
        assert code(there, "import_metadata", 3, content=damaged, state="LIVE") == "BAD_REQUEST"
    assert code(there, "import_metadata", 3, content=content, state="MOVED") == "BAD_REQUEST"
    assert there("verify").code == "NO_CLUSTER"
    assert code(there, "import_metadata", 3, content=content, state="LIVE") == "OK"


def test_history_of_a_broker_is_compared_as_before_after_a_move(two, other):
    there = moved(two[0], other, 3)
    assert there("verify").code == "OK"
    assert there.alter("topic", "a", [["retention.ms", "5"]]).code == "OK"
    assert there("verify").code == "OK"
    there.image = replace(there.image, chain_hash="x")
    assert there("verify").code == "FORKED"
    there.image = replace(there.image, offset=99)
    assert there("verify").code == "REGRESSED"


def test_large_content_moves(two, other):
    """More fields than Lua unpacks at once."""
    one = two[0]
    for number in range(3):
        name = f"large-{number}"
        items = [{"partition": each, "replicas": "1"} for each in range(200)]
        assert one.create(name, partitions=items, total=200).code == "OK"
    content = exported(one, 3)
    fields = {f"group:g{number}": "{}" for number in range(9000)}
    next(row for row in content["hashes"] if row[0] == "configs")[1].update(fields)
    there = at(one, other)
    assert code(there, "import_metadata", 3, content=content, state="LIVE") == "OK"
    assert plain(exported(there, 4)) == plain(content)


# ------------------------------------------------------------------------------------------------ content


def walk(rng: random.Random, worlds: list[list[Caller]], count: int) -> None:
    """The same calls to both worlds, which must answer alike."""
    for number in range(count):
        at_node, script, arguments = random_step(rng, worlds[0])
        outcomes = []
        for callers in worlds:
            outcome = callers[at_node](script, **arguments)
            outcomes.append((outcome.code, outcome.offset, outcome.value))
            take_answer(callers[at_node], script, outcome)
            for each in callers:
                each.catch_up()
        assert outcomes[0] == outcomes[1], (number, script, arguments)
        assert worlds[0][0].image.without_position() == worlds[1][0].image.without_position(), (number, script)


def trim(callers: list[Caller]) -> bool:
    """Trim the log by a snapshot, if the controller may; keeps the newest records."""
    for caller in callers:
        caller("heartbeat", persisted=caller.catch_up().image.offset)
    controller = callers[max(callers[0].image.controller_id, 1) - 1]
    image = controller.image
    arguments = {
        "snapshot": json.dumps(write_snapshot(image).payload),
        "snapshot_offset": image.offset,
        "snapshot_hash": image.chain_hash,
    }
    return controller("trim", **arguments, keep=5).code == "OK"


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(3, 6))])
def test_stores_answer_alike_after_a_move_whatever_was_called_before(connected, seed):
    """One cluster moves from memory to Redis and back, the other one the other way round."""
    rng = random.Random(seed)
    worlds = [brokers(backend, 4) for backend in (MemoryBackend(), RedisBackend(connected, keep_dumps=False))]
    for migration_id in (1, 2):
        walk(rng, worlds, 120)
        found = [trim(callers) for callers in worlds]
        assert found[0] == found[1]
        next_worlds = []
        for callers in worlds:
            in_memory = isinstance(callers[0].backend, MemoryBackend)
            target = RedisBackend(connected, keep_dumps=False) if in_memory else MemoryBackend()
            before = plain(exported(callers[0], migration_id))
            there = [at(caller, target) for caller in callers]
            moved(callers[0], target, migration_id)
            after = plain(exported(there[0], migration_id))
            assert after == before
            assert code(there[0], "cancel_export", migration_id) == "OK"
            next_worlds.append(there)
        worlds = next_worlds
    walk(rng, worlds, 60)
    rows = [plain(exported(callers[0], 9), with_chain=False) for callers in worlds]
    assert rows[0] == rows[1]
    assert rows[0]["hashes"]["cluster"]["cluster_id"] == "cluster-a"


def test_broker_registration_survives_a_store_migration_unchanged(two, other):
    one = two[0]
    assert one.register("boot-2", rack="r", min_isr=2, http_port=8081, secret="s").code == "OK"
    one("heartbeat", persisted=7, is_full=True)
    before = plain(exported(one, 3))
    there = moved(one, other, 3)
    after = plain(exported(there, 4))
    assert after == before
    broker = after["hashes"]["b:1"]
    assert [broker[name] for name in ("rack", "min_isr", "http_port", "persisted")] == ["r", "2", "8081", "7"]
    assert (after["secret"], after["sets"]["full"]) == ("s", ["1"])
    assert after["hashes"]["hb"]["1"] > "0"


def test_trimmed_log_moves_with_its_snapshot(two, other):
    one, late = two[0], at(two[0], other)
    for number in range(9):
        one.alter("topic", "a", [["retention.ms", str(number)]])
    assert trim(two)
    first = one.backend.records()[0]
    assert first.kind == "Snapshot"
    there = moved(one, other, 3)
    assert next(record.offset for record in other.records()) == first.offset
    assert late("verify").code == "TRIMMED"
    assert there("verify").code == "OK"
    assert there.alter("topic", "a", [["retention.ms", "5"]]).code == "OK"


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_end_of_a_long_log_moves_with_a_snapshot_in_place_of_the_rest(two, other, is_trimmed):
    one, behind, late = two[0], at(two[1], other), at(two[0], other)
    if is_trimmed:
        assert trim(two)
    for number in range(2):
        one.alter("topic", "a", [["retention.ms", f"{number}"]])
    two[1].beat()
    behind.image = two[1].image
    for number in range(9):
        one.alter("topic", "a", [["retention.ms", f"1{number}"]])
    one.beat()
    snapshot = write_snapshot(one.image)
    content = run(one, "export_metadata", 3, log_from=snapshot.offset - 2).value["content"]
    # from the newest record on that the broker which is behind has on its disk
    assert [row[0] for row in content["log"]] == list(range(behind.image.offset, snapshot.offset + 1))
    assert with_snapshot(content, replace(snapshot, chain_hash="x")) is None
    there = at(one, other)
    rows = with_snapshot(content, snapshot)
    assert code(there, "import_metadata", 3, content=rows, state="LIVE") == "OK"
    assert [(each("verify").code, each.catch_up().image == there.image) for each in (there, behind)] == [
        ("OK", True)
    ] * 2
    assert late("verify").code == "TRIMMED"
    assert there.alter("topic", "a", [["retention.ms", "5"]]).code == "OK"
    assert behind.catch_up().image.topics["a"].configs["retention.ms"] == "5"
    new = Caller(other, 7).catch_up()
    assert new.image.without_position() == behind.image.without_position()


def test_whole_log_moves_while_a_registered_broker_has_none_of_it_on_its_disk(two):
    Caller(two[0].backend, 3).join(active=False)
    content = run(two[0], "export_metadata", 3, log_from=two[0].catch_up().image.offset).value["content"]
    assert content["log"][0][0] == 1
    assert with_snapshot(content, write_snapshot(two[0].image)) is content


def test_cluster_moves_there_and_back(two, other, backend):
    one = two[0]
    one.beat()
    there = moved(one, other, 3)
    assert there.create("b").code == "OK"
    back = moved(there.catch_up(), backend, 4)
    assert set(back.catch_up().image.topics) == {"a", "b"}
    assert there("verify").code == "MOVED"
    assert back("report_hw", partitions=[[topic_id_of("a"), 0, 1, 5, {"1": 7}]]).code == "OK"


# ------------------------------------------------------------------------------------------------ projections


def project(backend: RedisBackend, commands: list[list[str]], cluster_id: str = "cluster-a", epoch: int = 7) -> str:
    key = f"{backend.prefix}cluster"
    head = ["HSET", key, "cluster_id", cluster_id, "state", "PROJECTION", "projected_epoch", str(epoch), "ctl_id", "1"]
    arguments = (cluster_id, epoch, "known", json.dumps([head, *commands]))
    return backend.client.eval(_SCRIPT, 1, key, *arguments).decode()


def test_projection_begins_over_moved_metadata_of_its_cluster_only(connected):
    source = RedisBackend(connected, keep_dumps=False)
    one = brokers(source, 2)[0]
    assert project(source, []) == "foreign"
    exported(one, 3)
    assert project(source, []) == "foreign"
    assert code(one, "close_exported", 3) == "OK"
    assert project(source, [], "another") == "foreign"
    assert project(source, []) == "written"
    assert connected.hget(f"{source.prefix}cluster", "migration_id") == b"3"
    assert project(source, [], epoch=6) == "later"


def test_import_replaces_a_projection_completely(connected):
    there = MemoryBackend()
    source = RedisBackend(connected, keep_dumps=False)
    one = brokers(source, 2)[0]
    two = moved(one, there, 3)
    p = source.prefix
    gone = [
        *(["HSET", f"{p}tn", "old", "t-old"], ["HSET", f"{p}t:t-old", "name", "old", "total", "2", "made", "2"]),
        *(["HSET", f"{p}p:t-old:{number}", "isr", "1@1"] for number in (0, 1)),
        *(["HSET", f"{p}p:t-lost:0", "isr", "1@1"], ["HSET", f"{p}hw", "t-lost:0", "1:5"]),
        *(["HSET", f"{p}leo", "t-old:0", "{}"], ["HSET", f"{p}configs", "topic:old", "{}"]),
        *(["SADD", f"{p}brokers", "9"], ["HSET", f"{p}b:9", "state", "ACTIVE"]),
    ]
    assert project(source, gone) == "written"
    assert code(one, "close_exported", 3) == "OK"  # a repeat, which must not touch the projection
    assert connected.exists(f"{p}b:9")
    for refused in (one("verify"), one("seed_offer", incarnation=1, offer="x"), run(one, "export_metadata", 4)):
        assert refused.code == "MOVED"
    content = exported(two, 4)
    stale = run(one, "import_metadata", 2, content=content, state="LIVE")
    assert (stale.code, stale.value) == ("STALE_MIGRATION", {"migration_id": 3})
    assert code(one, "import_metadata", 4, content=content, state="LIVE") == "OK"
    assert not [key for key in source._keys() if b"old" in key or b"lost" in key or key.endswith(b":9")]
    assert connected.hget(f"{p}cluster", "projected_epoch") is None
    assert project(source, []) == "foreign"
    assert plain(exported(one, 5)) == plain(content)
