"""The store's scripts in Python: each one mirrors `yak/server/redis_scripts/<name>.lua`, check by check.

`tests/integration/store` compares the results of both. A script checks everything before it changes anything, as in
Redis, which has no rollback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from yak.sim import (
    store_brokers,
    store_configs,
    store_lease,
    store_leaving,
    store_partitions,
    store_reassignments,
    store_seeding,
    store_topics,
)
from yak.sim.store_checks import Value

if TYPE_CHECKING:
    from yak.sim.store import StoreState


SCRIPTS: dict[str, Callable[[StoreState, Mapping[str, Any], int], Value]] = {
    script.__name__: script
    for script in (
        store_brokers.bootstrap,
        store_brokers.verify,
        store_brokers.register,
        store_lease.heartbeat,
        store_lease.acquire_lease,
        store_brokers.unfence,
        store_brokers.fence,
        store_brokers.begin_stop,
        store_brokers.unregister,
        store_topics.create_topic,
        store_topics.create_partitions,
        store_topics.delete_topic,
        store_topics.undo_half_made,
        store_configs.alter_configs,
        store_partitions.elect,
        store_partitions.alter_isr,
        store_reassignments.alter_replicas,
        store_partitions.barrier,
        store_partitions.report_hw,
        store_leaving.leave_isr,
        store_brokers.alloc_pid,
        store_brokers.trim,
        store_seeding.seed_begin,
        store_seeding.seed_offer,
        store_seeding.seed_status,
        store_seeding.seed_read,
        store_seeding.seed_commit,
        store_seeding.seed_abort,
    )
}
