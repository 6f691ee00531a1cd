"""Where the brokers' metadata are, and the request to move them between Redis and the brokers' quorum.

Each broker reports its stores in read-only configs. `yak.metadata.store.target`, a config of all brokers, says where the
metadata shall be; librdkafka has no call that sets a config of all brokers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from yak.attempts import attempts
from yak.client.errors import reason_of
from yak.client.members import own_configs
from yak.client.metadata import Broker
from yak.client.quorum import FETCHES_WITHIN_MS, QuorumReplica, QuorumState, describe_quorum
from yak.client.raw_connection import BROKER_RESOURCE, RawConnection, first
from yak.client.reach import split_address
from yak.config.broker_config_table import METADATA_STORE_TARGET
from yak.errors import WaitTimeout, YakError
from yak.ids import NodeId

BOTH: Final = "redis,raft"
QUORUM: Final = "quorum"
"""What a broker reports as its store when the quorum has the metadata."""
_STORES, _STORE, _STATE = "yak.metadata.stores", "yak.metadata.store", "yak.metadata.state"
_INCREMENTAL_ALTER_CONFIGS: Final = 44, 1
_SET: Final = 0
_INVALID_REQUEST, _INVALID_CONFIG = 42, 40
_ANSWER_S: Final = 2.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class BrokerStores:
    """The stores that a broker was started with, and where it finds the metadata. All empty: it does not answer."""

    node_id: NodeId
    stores: str = ""
    store: str = ""
    state: str = ""

    def uses(self, store: str) -> bool:
        """Whether the broker works with the metadata in `store`, redis or raft."""
        return self.state == "ACTIVE" and bool(self.store) and (self.store == QUORUM) == (store == "raft")


def read_stores(addresses: Mapping[NodeId, str], *, timeout_s: float = _ANSWER_S) -> list[BrokerStores]:
    """What each broker reports about its metadata stores. Never raises."""
    found = []
    for node_id, address in sorted(addresses.items()):
        configs = own_configs(Broker(node_id, *split_address(address)), (_STORES, _STORE, _STATE), timeout_s) or {}
        found.append(BrokerStores(node_id, *(configs.get(name, "") for name in (_STORES, _STORE, _STATE))))
    return found


def set_target(addresses: Mapping[NodeId, str], to: str, *, timeout_s: float) -> None:
    """Ask for the move to `to`, redis or raft. Raises YakError (`migrate-refused`), WaitTimeout (`migrate-refused`)."""
    config = {"name": METADATA_STORE_TARGET, "config_operation": _SET, "value": to}
    resource = {"resource_type": BROKER_RESOURCE, "resource_name": "", "configs": [config]}
    fields = {"resources": [resource], "validate_only": False}
    why = ""
    for _ in attempts(timeout_s, _POLL_S):
        for address in addresses.values():
            try:
                with RawConnection(address, timeout_s=min(10.0, timeout_s)) as connection:
                    answer = first(connection.call(_INCREMENTAL_ALTER_CONFIGS, fields).responses)
            except OSError as error:
                why = f"{address}: {reason_of(error)}"
                continue
            code, why = int(answer.error_code), answer.error_message or answer.error_code.name
            if not code:
                return
            if code in (_INVALID_REQUEST, _INVALID_CONFIG):
                raise YakError(
                    "migrate-refused", "the brokers refuse to move the metadata", why=why, try_=("yak cluster",)
                )
    raise WaitTimeout(
        "migrate-refused",
        f"the brokers did not take the order to move the metadata in {timeout_s:g} s",
        why=why,
        try_=("yak cluster", "yak cluster migrate          repeat it"),
    )


def wait_for_store(addresses: Mapping[NodeId, str], to: str, *, timeout_s: float) -> None:
    """Wait until every broker uses the store `to`. Raises WaitTimeout (`migrate-waits`)."""
    for _ in attempts(timeout_s, _POLL_S):
        missing = [each for each in read_stores(addresses) if not each.uses(to)]
        if not missing:
            return
    where = "the quorum" if to == "raft" else "Redis"
    raise WaitTimeout(
        "migrate-waits",
        f"the metadata were not in {where} for every broker after {timeout_s:g} s",
        why="; ".join(f"broker {each.node_id}: {_said(each)}" for each in missing)
        + "; the request stays, and the quorum's leader continues",
        try_=(f"yak cluster migrate --to {to}          wait again", "yak quorum describe", "yak cluster"),
    )


def wait_for_quorum(addresses: Mapping[NodeId, str], *, timeout_s: float) -> QuorumState:
    """Wait until the quorum has a leader, and every voter runs and has caught up. Raises WaitTimeout (`migrate-quorum`)."""
    why = ""
    for _ in attempts(timeout_s, _POLL_S):
        for address in addresses.values():
            try:
                state = describe_quorum(address, timeout_s=min(_ANSWER_S, timeout_s))
            except YakError as error:
                why = f"{error.message}: {error.why}"
                continue
            behind = sorted(set(state.voter_ids) - _caught_up(state))
            if not behind:
                return state
            why = f"of its voters {', '.join(map(str, behind))} did not catch up"
            break
    raise WaitTimeout(
        "migrate-quorum",
        f"the metadata quorum was not complete after {timeout_s:g} s",
        why=why,
        try_=("yak quorum describe --replication", "start the voters that do not run, and repeat the command"),
    )


def _caught_up(state: QuorumState) -> set[NodeId]:
    def is_caught_up(voter: QuorumReplica) -> bool:
        age = voter.caught_up_ms_ago
        return voter.is_running and (voter.lag == 0 or (age is not None and age <= FETCHES_WITHIN_MS))

    return {state.leader_id, *(each.node_id for each in state.voters if is_caught_up(each))}


def _said(stores: BrokerStores) -> str:
    if not stores.stores:
        return "no answer"
    where = {"": "no store", QUORUM: "the quorum"}.get(stores.store, "Redis")
    return f"{stores.state}, with {where}"
