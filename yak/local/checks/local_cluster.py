"""The cluster that `yak up` started in a data directory, if there is one."""

from yak.errors import YakError
from yak.local.checks.finding import Finding
from yak.local.cluster import LocalCluster
from yak.local.status import ClusterStatus


def read_status(data_dir: str) -> ClusterStatus | None:
    """The cluster's status; None when no cluster was started there, or its state cannot be read."""
    try:
        status = LocalCluster(data_dir).status()
    except YakError:
        return None
    return status if status.brokers else None


def check_local_cluster(data_dir: str) -> Finding:
    """Whether the processes that should run do run."""
    try:
        status = LocalCluster(data_dir).status()
    except YakError as error:
        return Finding("local cluster", "FAIL", f"{error.message}: {error.why}", error.try_[0] if error.try_ else "")
    if not status.brokers:
        return Finding("local cluster", "skip", f"none was started in {status.data_dir}")
    if all(broker.state == "stopped" for broker in status.brokers):
        return Finding("local cluster", "skip", f"the one in {status.data_dir} is stopped")
    up_again = f"yak up -d --data-dir {status.data_dir}"
    dead = [str(broker.node_id) for broker in status.brokers if broker.state == "dead"]
    if dead:
        return Finding("local cluster", "FAIL", f"node {', '.join(dead)} should run and is gone", up_again)
    if status.redis_running is False:
        return Finding("local cluster", "FAIL", "its Redis should run and is gone", up_again)
    paused = [broker.node_id for broker in status.brokers if broker.state == "paused"]
    if paused:
        resume = f"yak node resume {paused[0]} --data-dir {status.data_dir}"
        return Finding("local cluster", "warn", f"node {', '.join(map(str, paused))} is paused", resume)
    nodes = ", ".join(f"node {broker.node_id} at {broker.address}" for broker in status.brokers)
    return Finding("local cluster", "ok", f"{nodes}, in {status.data_dir}")
