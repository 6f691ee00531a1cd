"""Starts the missing processes of a local cluster: all brokers at once, then Redis.

The brokers start first because they take longer to load than Redis takes to answer; they wait for it. With a metadata
quorum there is no Redis, and the brokers wait for a majority of its voters.
"""

import os
from pathlib import Path
from typing import Final

from yak.errors import StartRefused
from yak.local import cluster_plan, layout, listeners, machines, processes, quorum, redis_child, state
from yak.local.broker_process import BrokerSpec, ReadyBroker, StartingBroker, read_ready_file, wait_all_ready
from yak.local.processes import ProcessId
from yak.local.quorum import QuorumSpec
from yak.local.state import BrokerState, ClusterState
from yak.local.status import broker_status, is_alive

REDIS_ALONE: Final = 0
"""A node id that no broker has, as numbering starts at 1: `start_missing` then starts no broker."""
_UNREADY_PATIENCE_SECONDS: Final = 5.0


def start_missing(known: ClusterState, only: int | None = None) -> tuple[int, ...]:
    """Start the own Redis server if it is gone, and the wanted brokers that do not run (or `only` one); wait for all.

    Returns the started nodes. When one cannot start, all that were started are stopped again, and its error is raised;
    Redis stays if it has to be restored, or if other brokers use it.
    """
    starting: list[tuple[BrokerState, StartingBroker]] = []
    redis = known.redis
    redis_missing = redis.is_ours and not (redis.process is not None and processes.is_running(redis.process))
    if redis_missing:
        _choose_redis_socket(known)
    server = None
    shared = quorum.prepare(known)
    if known.exposed.tls:
        listeners.make_certificates(known)

    def ready(index: int, found: ReadyBroker) -> None:
        _take_in(starting[index][0], found)
        state.save(known)

    def redis_started(process: ProcessId) -> None:
        redis.process = process
        state.save(known)

    try:
        _stop_unready(known, only)
        missing = []
        for broker in known.brokers:
            broker.wanted = broker.wanted or only is None
            if broker_status(broker).state == "dead" and only in {None, broker.node_id}:
                broker.process, broker.is_ready = None, False
                missing.append(broker)
        state.save(known)  # from this the next command finds the processes if this one is killed before it stores all
        for broker in missing:
            child = _spawn(known, broker, shared, is_alone=only is not None)
            starting.append((broker, child))
        state.save(known)
        if redis_missing:
            folder, log_path = layout.redis_dir(known.data_dir), layout.log_path(known.data_dir, "redis")
            path = redis_child.socket_path(redis.url)
            server = redis_child.start(folder, 0, log_path, socket_path=path, on_start=redis_started)
        wait_all_ready([child for _, child in starting], ready)
    except BaseException as error:
        if redis_missing and server is None:
            redis.process = None
        # Frozen brokers have offered their metadata to this Redis: `yak cluster restore` needs it.
        is_frozen = isinstance(error, StartRefused) and error.code == "broker-frozen"
        _undo(known, starting, stop_redis=server is not None and not is_frozen)
        raise
    known.cluster_id = layout.read_cluster_id(known.brokers[0].data_dir) or known.cluster_id
    state.save(known)
    return tuple(broker.node_id for broker, _ in starting)


def take_in_ready(known: ClusterState) -> None:
    """Note what a start that was killed did not: the cluster's id, and the brokers that became ready since."""
    for broker in known.brokers:
        if known.cluster_id is None and broker.process is not None:  # a start that failed leaves none
            known.cluster_id = layout.read_cluster_id(broker.data_dir)
        if not broker.is_ready and is_alive(broker):
            found = read_ready_file(Path(layout.ready_file(known.data_dir, broker.node_id)))
            if found is not None:
                _take_in(broker, found)


def _take_in(broker: BrokerState, found: ReadyBroker) -> None:
    broker.process, broker.is_ready, broker.epoch = found.process, True, found.broker_epoch
    broker.port = int(found.address.rpartition(":")[2])
    broker.http_port, broker.http_tls = found.http_port, found.http_tls


def end_strays(known: ClusterState) -> None:
    """End brokers of a start that was killed before it noted them; they would wait for the data of those that follow."""
    missing = [each.data_dir for each in known.brokers if each.wanted and not each.is_ready and not is_alive(each)]
    if missing:
        processes.stop_all(processes.brokers_on(missing), patience_seconds=_UNREADY_PATIENCE_SECONDS)


def _stop_unready(known: ClusterState, only: int | None) -> None:
    """Stop brokers whose command was killed before they were ready: without it nothing waits for them, or says why not."""
    unready = [
        broker.process
        for broker in known.brokers
        if broker.process is not None and not broker.is_ready and only in {None, broker.node_id}
    ]
    processes.stop_all(unready, patience_seconds=_UNREADY_PATIENCE_SECONDS)


def _spawn(known: ClusterState, broker: BrokerState, shared: QuorumSpec | None, *, is_alone: bool) -> StartingBroker:
    spec = BrokerSpec(
        broker.node_id,
        broker.host,
        broker.port,
        broker.data_dir,
        known.redis.url,
        cluster_plan.fault_configs(known, broker)
        + cluster_plan.replication_configs(len(machines.machines(known)), broker.configs)
        + machines.serve_configs(known, broker)
        + broker.configs,
        broker.role,
        broker.http_port,
        shared,
        listeners.serve_arguments(known, broker),
    )
    child = StartingBroker(
        spec,
        log_path=layout.log_path(known.data_dir, f"node-{broker.node_id}"),
        ready_file=layout.ready_file(known.data_dir, broker.node_id),
        is_alone=is_alone,
    )
    broker.process, broker.is_ready, broker.epoch = child.process, False, None
    return child


def _undo(known: ClusterState, starting: list[tuple[BrokerState, StartingBroker]], *, stop_redis: bool) -> None:
    for broker, child in starting:
        child.abandon()
        broker.process, broker.is_ready = None, False
    if stop_redis and known.redis.process is not None and not any(map(is_alive, known.brokers)):
        redis_child.stop(known.redis.process)
        known.redis.process = None
    state.save(known)


def forget_socket(known: ClusterState) -> None:
    """Remove the socket of the cluster's own Redis server, which has ended."""
    if known.redis.is_ours:
        redis_child.forget_socket(redis_child.socket_path(known.redis.url), layout.redis_dir(known.data_dir))


def _choose_redis_socket(known: ClusterState) -> None:
    """Keep the socket that running brokers use; else take the folder's socket, since the folder may have moved."""
    redis = known.redis
    if redis.url and any(map(is_alive, known.brokers)):
        return
    folder = layout.redis_dir(known.data_dir)
    redis_child.forget_socket(
        redis_child.socket_path(redis.url) or os.path.join(folder, redis_child.SOCKET_NAME), folder
    )
    redis.url = redis_child.socket_url(redis_child.socket_for(folder))
