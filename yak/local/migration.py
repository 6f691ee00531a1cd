"""Moves the metadata of a running local cluster between Redis and a quorum of its brokers (`yak cluster migrate`).

    1. note the intention in the state file, choose the voters, start Redis
    2. restart the brokers one by one with both stores
    3. set the target; the quorum's leader moves the metadata
    4. note that they are moved, and restart the brokers one by one with the new store alone
    5. stop Redis, and forget the move

Each step checks what is done already, so the command can be repeated after it was killed anywhere.
"""

from collections.abc import Callable
from shlex import quote
from typing import Final

from yak.attempts import attempts
from yak.client.admin import Admin
from yak.client.store_moves import BOTH, read_stores, set_target, wait_for_quorum, wait_for_store
from yak.errors import UsageError, WaitTimeout, YakError
from yak.ids import NodeId
from yak.local import layout, quorum, redis_child, state
from yak.local.cluster_plan import first_voters
from yak.local.cluster_start import REDIS_ALONE, forget_socket, start_missing
from yak.local.state import BrokerState, ClusterState, RedisState
from yak.local.status import is_alive
from yak.private_files import replace_file
from yak.security.redis_url import refuse_password, without_password
from yak.view.partition_state import is_offline, out_of_sync

PATIENCE_SECONDS: Final = 120.0
"""The longest wait of one step: for replicas, for the quorum, for the move."""
_POLL_SECONDS: Final = 0.1
_WHERE: Final = {quorum.REDIS: "Redis", quorum.RAFT: "a quorum of the brokers"}


class Migration:
    """One run of the command, under the cluster's lock. `restart` stops a broker and starts it as the state says."""

    def __init__(self, known: ClusterState, restart: Callable[[BrokerState], None], say: Callable[[str], None]) -> None:
        self._known, self._restart, self._say = known, restart, say

    def run(self, to: str, redis_url: str | None) -> bool:
        """Move, or finish an interrupted move; False when there was nothing to do. Raises YakError."""
        known = self._known
        if known.moving_to is None and known.metadata == to:
            return False
        if not any(map(is_alive, known.brokers)):
            raise YakError(
                "cluster-not-running",
                f"the cluster in {known.data_dir} does not run",
                why="its brokers move the metadata",
                try_=(f"yak up -d --data-dir {quote(known.data_dir)}", f"yak cluster migrate --to {to}"),
            )
        if known.moving_to != to:
            self._begin(to, redis_url)
        elif redis_url is not None and known.redis.url != redis_url:
            raise UsageError(
                "cluster-running",
                f"the move to Redis at {known.redis.url} has begun",
                why="it goes on with the Redis that it began with",
                try_=(f"yak cluster migrate --to redis --data-dir {quote(known.data_dir)}",),
            )
        if not known.has_moved:
            self._move(to)
        self._finish(to)
        return True

    # ------------------------------------------------------------------------------------------------- the steps

    def _begin(self, to: str, redis_url: str | None) -> None:
        known = self._known
        refuse_password(redis_url)
        if to == quorum.REDIS and not known.redis.url and not known.redis.is_ours:
            known.redis = RedisState(redis_url or "", is_ours=redis_url is None)
        elif redis_url is not None and known.redis.url != redis_url:
            raise UsageError(
                "cluster-running",
                f"the brokers are connected to Redis at {without_password(known.redis.url)}",
                why="a move to a quorum was interrupted; the way back leads to the Redis where it began",
                try_=(f"yak cluster migrate --to redis --data-dir {quote(known.data_dir)}",),
            )
        if not known.voters:
            known.voters = first_voters(known)
            self._say(f"first voters of the quorum: {', '.join(map(str, known.voters))}")
        known.moving_to, known.has_moved = to, False
        # with the cluster's id, for a broker that is added meanwhile or later
        line = quorum.shared_secret(known.brokers[0].data_dir)
        replace_file(layout.secret_path(known.data_dir), f"{line}\n".encode())
        state.save(known)

    def _move(self, to: str) -> None:
        known = self._known
        start_missing(known, only=REDIS_ALONE)
        self._restart_all(BOTH, "both stores", in_quorum=known.metadata == quorum.RAFT)
        found = wait_for_quorum(self._addresses(), timeout_s=PATIENCE_SECONDS)
        # Those of the log, if there was a quorum before: `yak quorum add` and `remove` changed them.
        known.voters = tuple(found.voter_ids)
        voters = ", ".join(map(str, known.voters))
        self._say(f"node {found.leader_id} leads the quorum, and its voters {voters} have caught up")
        self._wait_in_sync()
        set_target(self._addresses(), to, timeout_s=PATIENCE_SECONDS)
        wait_for_store(self._addresses(), to, timeout_s=PATIENCE_SECONDS)
        self._restart_all(BOTH, "both stores", in_quorum=False)  # those that died meanwhile must learn of the move
        wait_for_store(self._addresses(), to, timeout_s=PATIENCE_SECONDS)
        known.metadata, known.has_moved = to, True
        state.save(known)
        self._say(f"the metadata are in {_WHERE[to]}")

    def _finish(self, to: str) -> None:
        known = self._known
        self._restart_all(to, f"{_WHERE[to]} alone", in_quorum=to == quorum.RAFT)
        self._wait_in_sync()
        if to == quorum.RAFT:
            if known.redis.process is not None:
                self._say("stopping Redis")
                redis_child.stop(known.redis.process)
            forget_socket(known)
            known.redis = RedisState("")
        known.moving_to, known.has_moved = None, False
        state.save(known)

    # ------------------------------------------------------------------------------------------------- restarts

    def _restart_all(self, stores: str, new_store: str, *, in_quorum: bool) -> None:
        """Restart each broker that runs with other stores, while the others have all replicas and the quorum's votes."""
        brokers = self._known.brokers
        there = {each.node_id: each.stores for each in read_stores(self._addresses())}
        missing = [broker for broker in brokers if not is_alive(broker)]
        others = [
            broker
            for broker in brokers
            # one that an interrupted command started is not known as ready
            if broker not in missing and (there.get(broker.node_id) != stores or not broker.is_ready)
        ]
        for broker in missing + others:
            if broker in others:
                self._wait_in_sync()
                if in_quorum:
                    wait_for_quorum(self._addresses(), timeout_s=PATIENCE_SECONDS)
            self._restart(broker)
            self._say(f"node {broker.node_id} runs with {new_store}")

    def _addresses(self) -> dict[NodeId, str]:
        return {broker.node_id: broker.address for broker in self._known.brokers if is_alive(broker)}

    def _wait_in_sync(self) -> None:
        """Wait until every replica of the running brokers is in its ISR. Raises WaitTimeout (`migrate-not-in-sync`)."""
        for _ in attempts(PATIENCE_SECONDS, _POLL_SECONDS):
            why = self._lagging()
            if not why:
                return
        raise WaitTimeout(
            "migrate-not-in-sync",
            f"replicas did not join their ISR in {PATIENCE_SECONDS:g} s; no further broker was restarted",
            why=why,
            try_=("yak isr", f"yak cluster migrate --to {self._known.moving_to}          go on"),
        )

    def _lagging(self) -> str:
        """What is not in sync; empty when all is."""
        addresses = self._addresses()
        try:
            topics = Admin(",".join(addresses.values()), timeout_ms=5_000).metadata().topics.values()
        except YakError as error:
            return f"{error.message}: {error.why}"
        lagging = [
            f"{topic.name}-{each.number}"
            for topic in topics
            for each in topic.partitions
            if is_offline(each) or set(out_of_sync(each)) & set(addresses)
        ]
        return f"under-replicated: {', '.join(lagging[:5])}{' …' if len(lagging) > 5 else ''}" if lagging else ""
