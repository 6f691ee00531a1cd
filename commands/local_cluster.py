"""Finds the cluster of `yak up` on this machine, for commands that operate on it or use its files."""

import os
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

from yak.commands.settings import ResolvedSetting, Settings
from yak.errors import UsageError, YakError
from yak.view.formats import numbered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yak.commands.options import Globals
    from yak.local.cluster import LocalCluster
    from yak.local.status import ClusterStatus

_UP_IN = "yak up in "
_STOPPED = ", where no broker runs"


def bootstrap_servers(settings: Settings) -> ResolvedSetting:
    """The bootstrap servers: the configured ones, otherwise the running brokers of `yak up` in the data directory.

    So every command finds a cluster on other ports, and a cluster whose first broker is dead. If none runs, it is the
    dead and paused ones: their cluster is meant, not another one at the default address. Without a cluster, or after
    `yak down`, it is the default address.
    """
    from yak.local.cluster import LocalCluster

    found = settings.get("bootstrap_servers")
    if found.origin != "default":
        return found
    data_dir = str(settings.value("data_dir"))
    try:
        brokers = LocalCluster(data_dir).status().brokers
    except YakError as error:
        if error.code == "cluster-state-foreign":
            settings.warnings.append(f"{error.message}: {error.why}")
        return found
    running = [broker.address for broker in brokers if broker.state in ("running", "starting")]
    addresses = running or [broker.address for broker in brokers if broker.state != "stopped"]
    origin = f"{_UP_IN}{data_dir}{'' if running else _STOPPED}"
    return ResolvedSetting(found.name, ",".join(addresses), origin) if addresses else found


def is_from_directory(settings: Settings, found: ResolvedSetting, *, or_started_here: bool = True) -> bool:
    """Whether the working directory gave this address: ./yak.toml, or the state of `yak up`.

    Without `or_started_here` a state counts only if none of its processes runs: it may have come with a folder.
    """
    if settings.is_from_directory(found):
        return True
    return is_of_yak_up(found) and (or_started_here or found.origin.endswith(_STOPPED))


def is_of_yak_up(found: ResolvedSetting) -> bool:
    """Whether these are brokers of `yak up` in the data directory."""
    return found.origin.startswith(_UP_IN)


def security_of_yak_up(settings: Settings) -> tuple[str, str | None]:
    """The security protocol of the cluster of `yak up` in the data directory, and the authority that it made."""
    from yak.local.cluster import LocalCluster

    status = LocalCluster(str(settings.value("data_dir"))).status()
    return status.security_protocol, status.ca_file


def find_local(g: "Globals", data_dir: str | None) -> "ClusterStatus | None":
    """The local cluster of --data-dir, or that of the settings.

    None when there is none, or when the configured brokers are not its own.
    """
    status = local_cluster(g, data_dir).status()
    if not status.brokers:
        return None
    if data_dir is not None or g.settings.get("bootstrap_servers").origin == "default":
        return status
    own = {broker.address for broker in status.brokers}
    return status if own & set(g.bootstrap_servers.split(",")) else None


def known_redis(g: "Globals", flag: str | None, local: "ClusterStatus | None") -> str | None:
    """The configured metadata store, otherwise the local cluster's; None if neither is known.

    Raises UsageError (`no-redis`) when the local cluster has no Redis.
    """
    found = g.settings.get("redis_url", flag=flag)
    g.out.warn_once(g.settings.warnings)
    if flag is None and local is not None and local.metadata == "raft":
        raise UsageError(
            "no-redis",
            f"the cluster in {local.data_dir} has no Redis to read or restore",
            why="its metadata are in a quorum of its brokers, and each of them has a copy",
            try_=("yak quorum describe --replication", "yak metadata snapshot", "yak isr"),
        )
    if found.origin != "default":
        return str(found.value)
    return local.redis_url if local is not None else None


def data_dir_flag(data_dir: str) -> str:
    """The option that `yak up ...` needs for this directory; empty for the default directory."""
    return "" if data_dir == os.path.abspath("yak-data") else f" --data-dir {shlex.quote(data_dir)}"


def data_dir_of(g: "Globals", flag: str | None) -> str:
    """The data directory of the cluster: the flag, else the setting."""
    return str(g.settings.value("data_dir", flag=flag))


def local_cluster(g: "Globals", data_dir: str | None) -> "LocalCluster":
    """The cluster in the data directory."""
    from yak.local.cluster import LocalCluster

    return LocalCluster(data_dir_of(g, data_dir))


def print_status(g: "Globals", status: "ClusterStatus", *, with_state: bool = True, with_place: bool = False) -> None:
    """Print the brokers of a cluster, and with `with_place` its metadata store and its data directory."""
    if g.out.document(status.as_json()):
        return
    has_machines = any(broker.machine is not None for broker in status.brokers)
    node = "node" if g.out.for_people else "node_id"
    columns = (node, *(("machine",) if has_machines else ()), "role", "address", "pid")
    g.out.table(
        [{"node": broker.node_id, **asdict(broker)} for broker in status.brokers],
        (*columns, "state") if with_state else columns,
        wide_columns=("http_address",) if with_state else ("state",),
        empty=f"No cluster was started in {status.data_dir}. yak up -d starts one.",
    )
    if with_place and status.brokers:
        print_access(g, status)
        if status.moving_to is not None:
            g.out.note(f"moving  metadata to {status.moving_to}, not finished (yak cluster migrate goes on)")
        if status.redis_url is None:
            voters = numbered("node", status.voters)
            g.out.note(f"quorum  began with {voters} (yak quorum describe shows it now); no Redis")
            g.out.note(f"data    {status.data_dir}")
            return
        from yak.security.redis_url import without_password

        condition = {True: "running", False: "not running", None: "not ours"}[status.redis_running]
        g.out.note(f"redis   {without_password(status.redis_url)} ({condition})")
        g.out.note(f"data    {status.data_dir}")


def print_access(g: "Globals", status: "ClusterStatus") -> None:
    """Print where and how clients of other programs connect, unless that is plain and on this machine."""
    if status.listeners:
        g.out.note(f"listen  {' '.join(status.listeners)}")
    if status.security_protocol == "PLAINTEXT":
        return
    needs = [f"security.protocol={status.security_protocol}"]
    if status.ca_file is not None:
        needs.append(f"ssl.ca.location={status.ca_file}")
    if status.security_protocol.startswith("SASL"):
        needs += ["sasl.mechanism=SCRAM-SHA-256", "sasl.username=USER", "sasl.password=..."]
    g.out.note(f"clients {' '.join(needs)}")
    if status.security_protocol.startswith("SASL"):
        g.out.note("yak     export YAK_SASL_USERNAME=USER YAK_SASL_PASSWORD=...")


def roles_note(roles: "Mapping[int, str | None]", voters: "Sequence[int]" = ()) -> str:
    """Which brokers lead new partitions by their roles; empty when all brokers have one role.

    `voters` are those with which a metadata quorum began: without a majority of the voters no broker takes over.
    """
    leaders = [node_id for node_id, role in roles.items() if role == "leader"]
    followers = [node_id for node_id, role in roles.items() if role == "follower"]
    if not leaders or not followers:
        return ""
    lead, dies = ("leads", "it dies") if len(leaders) == 1 else ("lead", "they die")
    take = "takes" if len(followers) == 1 else "take"
    if voters and 2 * len(set(voters) - set(leaders)) <= len(voters):
        still = f"if the quorum's voters are still {numbered('node', voters)}"
        return f"{numbered('node', leaders)} {lead} all new partitions; no broker takes over when {dies}, {still}"
    others = f"{numbered('node', followers)} (role follower) {take} over when {dies}"
    return f"{numbered('node', leaders)} {lead} all new partitions, {others}"
