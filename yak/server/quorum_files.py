"""Open what a node of the metadata quorum keeps on disk: its log, its vote, and the secret that it shares with the others."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Final

from yak.broker.quorum_node import QuorumParts
from yak.cluster.image import Image
from yak.errors import ProtocolViolation, StartRefused
from yak.lifecycle.secret_file import SecretFile
from yak.ports.disk import Disk
from yak.protocol.peer_proof import SECRET_BYTES, ClusterSecret
from yak.quorum.config import QuorumConfig
from yak.quorum.election_state import ElectionState
from yak.quorum.raft_log import FOLDER, RaftLog, unreadable
from yak.quorum.state_machine import StateMachine, read_snapshot, value_of
from yak.quorum.voters import Voter, VoterSet
from yak.server.options import ServeOptions
from yak.server.random_source import SystemRandomSource
from yak.storage.log_store import LogStore

MOVED: Final = "MOVED"
"""The state of a store whose metadata are in the other one."""
_STATE_FILE: Final = "quorum-state"


@dataclass(slots=True)
class OpenedQuorum:
    """The state of a node of the quorum as it is on disk."""

    log: RaftLog
    election: ElectionState
    state_path: str
    cluster_id: str
    creates_cluster: bool = True
    """Whether a new cluster may begin here: not where Redis may have it, nor on disks that know one."""

    def parts(self, options: ServeOptions, log_store: LogStore, advertised: tuple[str, int]) -> QuorumParts:
        """The parts for the broker. Without `--voters`, this node alone is the quorum."""
        host, port = advertised
        voters = options.voters or VoterSet((Voter(options.node_id, host, port),))
        directory_id = log_store.directory_ids()[0]
        config = QuorumConfig(
            options.node_id, directory_id, self.cluster_id, host, port, voters, creates_cluster=self.creates_cluster
        )
        return QuorumParts(config, self.log, self.election, self.state_path)


def open_quorum(
    disk: Disk,
    directory: str,
    options: ServeOptions,
    secret_file: SecretFile,
    image: Image,
    now_ms: int,
    cluster_id_on_disk: str = "",
    *,
    machine_stayed_up: bool = False,
) -> OpenedQuorum:
    """Open the files in the metadata folder; waits for the device. Raises StartRefused, OSError."""
    is_both, has_log = options.metadata == "both", disk.exists(f"{directory}/{FOLDER}")
    if image.offset and not has_log and not is_both:
        raise StartRefused(
            "metadata-elsewhere",
            f"the metadata of the cluster in {directory} are in Redis",
            why="with another metadata store this broker would be in another cluster; nothing was changed",
            try_=(
                "yak serve --metadata redis",
                "yak cluster migrate --to raft   move them to a quorum of the brokers",
                "yak serve --data-dir ANOTHER_DIRECTORY",
            ),
        )
    if cluster_id_on_disk and not has_log and not is_both:
        raise _log_is_missing(disk, directory, options)
    secret = _shared_secret(options, secret_file, directory)
    cluster_id = _cluster_id(options, secret, secret_file, directory, cluster_id_on_disk or image.cluster_id)
    open_log = partial(RaftLog.open, disk, directory, now_ms, keeps_written=machine_stayed_up)
    if is_both and options.voters is None and not (has_log and open_log().end_offset):
        raise StartRefused(
            "quorum-voters",
            "--metadata both needs the voters of the metadata quorum",
            why=f"no quorum is known in {directory}, and this broker alone is none; nothing was changed",
            try_=("yak serve --metadata both --voters ID@HOST:PORT,...",),
        )
    if secret_file.read() is None:
        disk.make_directory(directory)
        secret_file.write_plan(secret).run(disk)
    state_path = f"{directory}/{_STATE_FILE}"
    log = open_log()
    _restored(log)
    # a named id that does not follow from the secret is that of a cluster whose metadata are, or were, in Redis
    comes_from_redis = options.joins_cluster and cluster_id != cluster_id_of(secret)
    creates_cluster = not (is_both or image.offset or cluster_id_on_disk or comes_from_redis)
    return OpenedQuorum(log, ElectionState.read(disk, state_path), state_path, cluster_id, creates_cluster)


def _log_is_missing(disk: Disk, directory: str, options: ServeOptions) -> StartRefused:
    """The refusal without the quorum's log, on a disk that knows a cluster."""
    why = "a voter without its log and votes could vote twice, and lacks what it acknowledged"
    advice: tuple[str, ...] = (
        "yak quorum remove NODE          if it is a voter",
        f"mkdir -p {directory}/{FOLDER}          then start it: it copies the log, and can be added again",
    )
    name = directory.rpartition("/")[2]
    holders = [path for path in options.data_dirs if disk.exists(f"{path}/{name}/{FOLDER}")]
    if holders:
        why = f"it is in {holders[0]}, which is not the first data directory"
        advice = (f"name {holders[0]} as the first --data-dir",)
    return StartRefused(
        "quorum-log-unreadable",
        f"the metadata quorum's log in {directory} is missing",
        why=f"{why}; nothing was changed",
        try_=advice,
    )


def check_not_in_quorum(disk: Disk, directory: str, now_ms: int) -> None:
    """Check that the quorum's log in the metadata folder has no metadata: they were moved to Redis, or never here.

    Entries that are not committed count too: Redis has the content before the last entry of a move is written, and lets
    no broker use it before that entry is committed. Raises StartRefused, OSError.
    """
    log = RaftLog.open(disk, directory, now_ms)
    machine = _restored(log)
    for entry in log.entries(max(log.start_offset, log.snapshot_id.end_offset), log.end_offset):
        if not entry.is_control:
            machine.apply(value_of(entry.batch))
    if machine.state.cluster.get("state", MOVED) == MOVED:
        return
    raise StartRefused(
        "metadata-elsewhere",
        f"the metadata of the cluster in {directory} are in a quorum of brokers",
        why="with another metadata store this broker would be in another cluster; nothing was changed",
        try_=(
            "yak serve --metadata raft",
            "yak serve --metadata both   if they were moved while this broker did not run",
            "yak cluster migrate --to redis   move them to Redis",
            "yak serve --data-dir ANOTHER_DIRECTORY",
        ),
    )


def _restored(log: RaftLog) -> StateMachine:
    """The state in the log's snapshot. Raises StartRefused."""
    if not log.snapshot:
        return StateMachine()
    try:
        return read_snapshot(log.snapshot)[0]
    except ProtocolViolation as violation:
        raise unreadable(log.folder, violation) from violation


def cluster_id_of(secret: ClusterSecret) -> str:
    """The cluster id, which every node can compute before it knows any metadata."""
    digest = hashlib.sha256(b"yak-cluster-id" + bytes.fromhex(secret.to_text())).digest()
    return base64.urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()


def _cluster_id(
    options: ServeOptions, secret: ClusterSecret, secret_file: SecretFile, directory: str, on_disk: str
) -> str:
    """The cluster's id: that of the data, else that of the secret's file, else the one that follows from the secret.

    A cluster that was moved here from Redis keeps the id that it had there. Raises StartRefused.
    """
    named = options.cluster_id
    if not on_disk and not named and options.metadata == "both":
        raise StartRefused(
            "cluster-secret",
            f"the cluster id for {directory} is not known",
            why="a new broker with --metadata both learns it from the secret's file; nothing was changed",
            try_=(
                "yak quorum secret --data-dir DIR > cluster.secret   DIR: the data of a broker of the cluster",
                "yak serve --metadata both --cluster-secret-file cluster.secret",
            ),
        )
    given = named or cluster_id_of(secret)
    has_secret_file = not named and secret_file.read() is not None
    if on_disk and on_disk != given and not has_secret_file:
        raise StartRefused(
            "cluster-secret",
            f"{directory} belongs to cluster {on_disk}, and the secret to cluster {given}",
            why="the secret's file names the cluster id, or the id follows from the secret; nothing was changed",
            try_=("yak serve --cluster-secret-file FILE   the file of this cluster's other brokers",),
        )
    return on_disk or given


def _shared_secret(options: ServeOptions, secret_file: SecretFile, directory: str) -> ClusterSecret:
    """The cluster's secret. Only a node that is the whole quorum of a new cluster makes one. Raises StartRefused."""
    on_disk, given = secret_file.read(), options.cluster_secret
    if on_disk is not None and given is not None and on_disk != given:
        raise StartRefused(
            "cluster-secret",
            "the given cluster secret is not that of the data directory",
            why=f"{directory} has the secret of another cluster; nothing was changed",
            try_=("yak serve without --cluster-secret-file", "yak serve --data-dir ANOTHER_DIRECTORY"),
        )
    is_alone = options.voters is None or options.voters.node_ids == (options.node_id,)
    secret = on_disk or given
    if secret is None and (not is_alone or options.metadata == "both"):
        make = "yak quorum secret > cluster.secret   once, then copy the file to each machine"
        if options.metadata == "both":
            make = "yak quorum secret --data-dir DIR > cluster.secret   DIR: the data of a broker of the cluster"
        raise StartRefused(
            "cluster-secret",
            "the brokers of a metadata quorum share a secret, and this one has none",
            why="each authenticates to the others with it, before it knows any metadata",
            try_=(make, f"yak serve --metadata {options.metadata} --voters ... --cluster-secret-file cluster.secret"),
        )
    return secret or ClusterSecret(SystemRandomSource().secret_bytes(SECRET_BYTES))
