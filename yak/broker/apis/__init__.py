"""The Kafka APIs that this broker serves: the one table that names them all, and a file for each.

The table drives dispatch, the ApiVersions answer, and `docs/kafka-apis.md`. To add an API: write its file (KEY, NAME,
VERSIONS, ABSENT, handle; and `slices` if its requests may have many elements), and name it in APIS. Related
APIs of a few lines share a file, whose APIS has an `Api` for each.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any

from yak.broker.apis import (
    acls,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    classic_members,
    client_quotas,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delegation_tokens,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    init_producer_id,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    quorum,
    sasl,
    transactions,
    txn_offset_commit,
    unregister_broker,
    update_features,
    user_scram_credentials,
    write_txn_markers,
)
from yak.broker.call import Api, ApiTable

APIS: tuple[ModuleType | Api, ...] = (
    produce,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    find_coordinator,
    *classic_members.APIS,
    describe_groups,
    list_groups,
    *sasl.APIS,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    init_producer_id,
    write_txn_markers,
    offset_for_leader_epoch,
    txn_offset_commit,
    *acls.APIS,
    describe_configs,
    *alter_configs.APIS,
    alter_replica_log_dirs,
    describe_log_dirs,
    create_partitions,
    *delegation_tokens.APIS,
    delete_groups,
    elect_leaders,
    alter_partition_reassignments,
    list_partition_reassignments,
    offset_delete,
    *client_quotas.APIS,
    *user_scram_credentials.APIS,
    describe_quorum,
    update_features,
    describe_cluster,
    describe_producers,
    unregister_broker,
    *transactions.APIS,
    *quorum.APIS,
    consumer_group_heartbeat,
    consumer_group_describe,
    list_config_resources,
    describe_topic_partitions,
)
TABLE: dict[int, ModuleType | Api] = {api.KEY: api for api in APIS}
assert len(TABLE) == len(APIS), "two modules have the same API key"

DISPATCH: dict[tuple[int, int], Callable[[Any, Any], Any]] = {
    (api.KEY, version): api.handle for api in APIS for version in api.VERSIONS
}
SLICED: dict[tuple[int, int], Callable[[Any, Any], Generator[None, None, Any]]] = {
    (api.KEY, version): api.slices
    for api in APIS
    if isinstance(api, ModuleType) and hasattr(api, "slices")
    for version in api.VERSIONS
}
"""Handlers that yield every few hundred elements of a large request (`yak.broker.large_requests`)."""
NAMES: dict[int, str] = {api.KEY: api.NAME for api in APIS}
API_TABLE = ApiTable(DISPATCH, SLICED, NAMES, api_versions.refuse_version)
