"""`yak down`: stops a cluster of `yak up`."""

from yak.commands.app import STOP, command, flag
from yak.commands.local_cluster import local_cluster
from yak.commands.options import Globals
from yak.commands.parameters import DataDir
from yak.errors import UsageError


@command(examples=("yak down", "yak down --purge", "yak down --data-dir ./other"))
def down(
    g: Globals,
    data_dir: DataDir = None,
    purge: bool = flag("--purge", "Delete its data too.", STOP, default=False),
    keep: bool = flag("--keep", "Keep the data, also of an --ephemeral cluster.", STOP, default=False),
) -> None:
    """Stop a cluster on this machine."""
    if keep and purge:
        raise UsageError("usage", "--keep and --purge exclude each other", why="one deletes, one does not")
    cluster = local_cluster(g, data_dir)
    g.must_not_be_readonly("stopping a cluster")
    status = cluster.status()
    if purge and status.brokers:
        g.confirm(f"Delete all data in {cluster.data_dir}?")
    for name in cluster.down(purge=purge, keep=keep):
        g.out.warn(f"{name} did not end in time and was killed")
    if purge and status.redis_url is not None and status.redis_running is None:
        from yak.security.redis_url import without_password

        g.out.warn(
            f"the cluster's metadata stays in {without_password(status.redis_url)}: yak up did not start that Redis"
        )
    g.out.note("stopped" + (f", {cluster.data_dir} deleted" if purge else ""))
