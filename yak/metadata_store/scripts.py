"""The store's scripts, and the call of one: each mirrors `yak/server/redis_scripts/<name>.lua`, check by check.

`tests/integration/store` compares the results of both; only `external_broker` exists in a quorum alone. A script checks
everything before it changes anything, as in Redis, which has no rollback.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from yak.metadata_store import (
    brokers,
    configs,
    controller,
    external_brokers,
    isr,
    migration,
    reassignments,
    restore,
    topics,
)
from yak.metadata_store.checks import RefusedCall, Value, caller_of
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import StoreOutcome, StoreRequest

_SCRIPTS: dict[str, Callable[[StoreState, Mapping[str, Any], int], Value]] = {
    script.__name__: script
    for script in (
        brokers.bootstrap,
        brokers.verify,
        brokers.register,
        controller.heartbeat,
        controller.acquire_lease,
        controller.unfence,
        controller.fence,
        brokers.begin_stop,
        brokers.unregister,
        topics.create_topic,
        topics.create_partitions,
        topics.delete_topic,
        topics.undo_half_made,
        configs.alter_configs,
        controller.elect,
        isr.alter_isr,
        reassignments.alter_replicas,
        isr.report_hw,
        isr.leave_isr,
        brokers.alloc_pid,
        controller.trim,
        external_brokers.external_broker,
        restore.seed_offer,
        restore.seed_commit,
        restore.seed_abort,
        migration.export_metadata,
        migration.import_metadata,
        migration.open_imported,
        migration.close_exported,
        migration.cancel_export,
    )
}
_OWN_CHECKS = frozenset(
    {
        *("bootstrap", "seed_offer", "seed_commit", "seed_abort"),
        *("export_metadata", "import_metadata", "open_imported", "close_exported", "cancel_export"),
    }
)
"""Scripts that also run on a store without the caller's history."""


def is_known(script: str) -> bool:
    """Whether there is a script with this name."""
    return script in _SCRIPTS


def execute(state: StoreState, request: StoreRequest, now_ms: int) -> StoreOutcome:
    """Run a script at `now_ms`. A refused call changes nothing; the same calls at the same times have the same effects."""
    script = _SCRIPTS.get(request.script)
    if script is None:
        return StoreOutcome("BAD_REQUEST", value={"message": f"no script {request.script}"})
    try:
        arguments = request.arguments
        if request.script == "seed_offer":
            arguments = arguments | {"history": _history_code(state, request)}
        elif request.script not in _OWN_CHECKS:
            _check_history(state, request)
        value = script(state, arguments, now_ms)
        code = "OK"
    except RefusedCall as refusal:
        code, value = refusal.code, refusal.value
    # the result must not share objects with the store, and must survive JSON
    return StoreOutcome(code, state.cluster.get("mo", 0), state.cluster.get("h", ""), json.loads(json.dumps(value)))


def _history_code(state: StoreState, request: StoreRequest) -> str:
    try:
        _check_history(state, request)
    except RefusedCall as refusal:
        return refusal.code
    return "OK"


def _check_history(state: StoreState, request: StoreRequest) -> None:
    cluster, asker = state.cluster, request.arguments
    if not cluster:
        raise RefusedCall("NO_CLUSTER")
    if asker.get("cluster_id") and asker["cluster_id"] != cluster["cluster_id"]:
        raise RefusedCall("WRONG_CLUSTER", cluster_id=cluster["cluster_id"])
    migration.check_not_frozen(state)
    if cluster["state"] != "LIVE":
        raise RefusedCall("SEEDING", offered=asker["node_id"] in state.offers)
    if asker.get("incarnation_id") and asker["incarnation_id"] != cluster["incarnation_id"]:
        raise RefusedCall("WRONG_INCARNATION", **restore.incarnation_for(state, asker))
    if cluster["mo"] < request.known_offset:
        raise RefusedCall("REGRESSED")
    if request.known_offset > 0:
        entry = state.entry(request.known_offset)
        if entry is None and state.snapshot is not None and state.snapshot.offset == request.known_offset:
            # a restored or trimmed history begins with a snapshot
            entry = state.snapshot
        following = state.entry(request.known_offset + 1)
        if entry is None and following is not None and following.previous_hash == request.known_hash:
            # a later trim replaced the snapshot, and all records after it may still be there
            return
        if entry is None or (entry is state.snapshot and entry.chain_hash != request.known_hash):
            raise RefusedCall("TRIMMED", **caller_of(state, asker))
        if entry.chain_hash != request.known_hash:
            raise RefusedCall("FORKED")
