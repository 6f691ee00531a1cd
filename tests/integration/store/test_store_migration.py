"""The scripts that move a cluster's metadata to another store: every state, and who is refused in it."""

from typing import Any

import pytest
from support.stores import Backend

from yak.ports.metadata_store import StoreOutcome, StoreRequest


def call(
    backend: Backend, script: str, migration_id: int = 5, cluster_id: str = "cluster-a", **more: Any
) -> StoreOutcome:
    who = {"node_id": 1, "cluster_id": cluster_id, "migration_id": migration_id}
    return backend.call(StoreRequest(script, who | more))


def code(backend: Backend, script: str, migration_id: int = 5, **more: Any) -> str:
    return call(backend, script, migration_id, **more).code


@pytest.fixture
def content(backend, one) -> dict[str, Any]:
    """The content of the store, which is EXPORTED by migration 5."""
    one.create("orders", replicas=("1", "1"), configs={"retention.ms": "4000"})
    found: Any = call(backend, "export_metadata").value["content"]
    return found


def test_exported_store_serves_nobody(backend, one, content):
    assert one("verify").code == "MIGRATING"
    assert one.beat().code == "MIGRATING"
    assert one.create("later").code == "MIGRATING"
    assert one("bootstrap", new_cluster_id="cluster-b", new_incarnation_id="i").code == "MIGRATING"
    assert one("seed_offer", incarnation=1, offer="x").code == "MIGRATING"


def test_export_can_be_repeated_by_a_newer_migration_only(backend, one, content):
    assert code(backend, "export_metadata", 5) == code(backend, "export_metadata", 6) == "OK"
    stale = call(backend, "export_metadata", 5)
    assert (stale.code, stale.value) == ("STALE_MIGRATION", {"migration_id": 6})
    assert code(backend, "close_exported", 5) == "STALE_MIGRATION"


def test_cancelled_export_goes_on_as_before(backend, one, content):
    assert code(backend, "cancel_export", 6) == "BAD_REQUEST"
    assert code(backend, "cancel_export") == code(backend, "cancel_export") == "OK"
    assert one("verify").code == one.create("later").code == "OK"
    assert code(backend, "close_exported") == "CLUSTER_IN_USE"


def test_closed_store_is_empty_and_says_that_the_metadata_moved(backend, one, content):
    assert code(backend, "close_exported") == code(backend, "close_exported") == "OK"
    assert one("verify").code == one.beat().code == "MOVED"
    assert one("bootstrap", new_cluster_id="cluster-b", new_incarnation_id="i").code == "MOVED"
    assert backend.records() == []
    assert code(backend, "export_metadata") == code(backend, "cancel_export") == "MOVED"
    assert code(backend, "open_imported") == "MOVED"


def test_imported_content_is_used_only_once_it_is_open(backend, one, content):
    before = one("verify").offset
    assert code(backend, "close_exported") == "OK"
    imported = call(backend, "import_metadata", 6, content=content, state="IMPORTED")
    assert (imported.code, imported.offset) == ("OK", before)
    assert one("verify").code == "MIGRATING"
    assert code(backend, "export_metadata", 7) == "MIGRATING"
    assert code(backend, "open_imported", 7) == "BAD_REQUEST"
    assert code(backend, "open_imported", 6) == code(backend, "open_imported", 6) == "OK"
    assert one("verify").code == one.create("later").code == "OK"
    assert "orders" in one.catch_up().image.topics


def test_registry_of_external_brokers_moves_too(backend, one, content):
    registry = ["guests", {"100": '{"host":"h","changed_ms":7}'}]
    moved = content | {"hashes": [*content["hashes"], registry]}
    call(backend, "import_metadata", 6, content=moved, state="LIVE")
    exported: Any = call(backend, "export_metadata", 7).value["content"]
    assert registry in [list(each) for each in exported["hashes"]]
    assert code(backend, "close_exported", 7) == "OK"


def test_repeated_import_changes_nothing(backend, one, content):
    call(backend, "close_exported")
    call(backend, "import_metadata", 6, content=content, state="LIVE")
    assert one.create("later").code == "OK"
    assert code(backend, "import_metadata", 6, content=content, state="LIVE") == "OK"
    assert "later" in one.catch_up().image.topics


def test_store_in_use_is_never_replaced(backend, one):
    assert code(backend, "import_metadata", 9, content={}, state="LIVE") == "CLUSTER_IN_USE"
    assert one("verify").code == "OK"


def test_newer_import_replaces_one_that_was_not_opened(backend, one, content):
    call(backend, "close_exported")
    call(backend, "import_metadata", 6, content=content, state="IMPORTED")
    assert code(backend, "import_metadata", 7, content=content, state="IMPORTED") == "OK"
    assert code(backend, "import_metadata", 6, content=content, state="IMPORTED") == "STALE_MIGRATION"
    assert code(backend, "open_imported", 6) == "STALE_MIGRATION"
    assert code(backend, "open_imported", 7) == "OK"


def test_empty_store_takes_any_cluster_and_gives_none(backend):
    assert code(backend, "export_metadata") == code(backend, "open_imported") == "NO_CLUSTER"
    assert code(backend, "close_exported") == code(backend, "cancel_export") == "NO_CLUSTER"


@pytest.mark.parametrize(
    "script", ["export_metadata", "import_metadata", "open_imported", "close_exported", "cancel_export"]
)
def test_another_cluster_is_refused(backend, one, script):
    assert code(backend, script, cluster_id="cluster-b", content={}, state="LIVE") == "WRONG_CLUSTER"


def test_store_that_waits_for_a_restore_takes_part_in_no_move(backend, one):
    known = one.image.offset
    backend.lose_last(1)
    assert one.image.offset == known
    offered = one("seed_offer", incarnation=1, offer="x")
    assert offered.code == "OK"
    for script in ("export_metadata", "open_imported", "close_exported", "cancel_export"):
        assert code(backend, script) == "SEEDING"
    assert code(backend, "import_metadata", content={}, state="LIVE") == "SEEDING"
