"""The Kafka APIs that this broker serves: the one table that names them all, and a file for each.

The table drives dispatch, the ApiVersions answer, and `docs/kafka-apis.md`. To add an API: write its file with the
names of an `Api`, and name it in APIS. `slices` is for requests that may have many elements; a file with a `handle`
beside it, or one of _AT_ONCE, serves other requests at once. Related APIs of a few lines share a file, whose APIS has
an `Api` for each.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from yak.broker.api_table import Api, ApiTable
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
from yak.broker.call import Call, Outcome
from yak.protocol.pace import at_once

if TYPE_CHECKING:
    from yak.broker.broker import Broker

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

_AT_ONCE = (
    list_offsets,
    offset_commit,
    txn_offset_commit,
    delete_records,
    write_txn_markers,
    offset_for_leader_epoch,
)
"""Their answers are as large as their requests: only a large request is served in slices."""


def _api_of(file: ModuleType | Api) -> Api:
    """The API of a file; without `handle` every request of it is served in slices, or at once if it has few elements."""
    if isinstance(file, Api):
        return file
    slices, is_at_once = getattr(file, "slices", None), file in _AT_ONCE

    def answer(broker: Broker, call: Call) -> Outcome:
        assert slices is not None
        served = slices(broker, call)
        return at_once(served) if is_at_once else broker.large_requests.answer(call, served)

    handle = getattr(file, "handle", answer)
    return Api(file.KEY, file.NAME, file.VERSIONS, handle, getattr(file, "ABSENT", ()), slices)


TABLE: dict[int, Api] = {api.KEY: api for api in map(_api_of, APIS)}
assert len(TABLE) == len(APIS), "two modules have the same API key"

DISPATCH = {(api.KEY, version): api.handle for api in TABLE.values() for version in api.VERSIONS}
SLICED = {
    (api.KEY, version): api.slices for api in TABLE.values() if api.slices is not None for version in api.VERSIONS
}
NAMES = {api.KEY: api.NAME for api in TABLE.values()}
API_TABLE = ApiTable(DISPATCH, SLICED, NAMES, api_versions.refuse_version)
