"""Open what a node of the metadata quorum keeps on disk: its log, its vote, and the secret that it shares with the others."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from yak.broker.quorum_node import QuorumParts
from yak.cluster.image import Image
from yak.cluster.secret_file import SecretFile
from yak.errors import ProtocolViolation, StartRefused
from yak.ports.disk import Disk
from yak.protocol.peer_proof import SECRET_BYTES, ClusterSecret
from yak.quorum.config import QuorumConfig
from yak.quorum.election_state import ElectionState
from yak.quorum.raft_log import FOLDER, RaftLog, unreadable
from yak.quorum.state_machine import read_snapshot
from yak.quorum.voters import Voter, VoterSet
from yak.server.options import ServeOptions
from yak.server.random_source import SystemRandomSource
from yak.storage.log_store import LogStore

_STATE_FILE = "quorum-state"


@dataclass(slots=True)
class OpenedQuorum:
    """The state of a node of the quorum as it is on disk."""

    log: RaftLog
    election: ElectionState
    state_path: str
    cluster_id: str

    def parts(self, options: ServeOptions, log_store: LogStore, advertised: tuple[str, int]) -> QuorumParts:
        """The parts for the broker. Without `--voters`, this node alone is the quorum."""
        host, port = advertised
        voters = options.voters or VoterSet((Voter(options.node_id, host, port),))
        directory_id = log_store.directory_ids()[0]
        config = QuorumConfig(options.node_id, directory_id, self.cluster_id, host, port, voters)
        return QuorumParts(config, self.log, self.election, self.state_path)


def open_quorum(
    disk: Disk, directory: str, options: ServeOptions, secret_file: SecretFile, image: Image, now_ms: int
) -> OpenedQuorum:
    """Open the files in the metadata folder; waits for the device. Raises StartRefused, OSError."""
    if image.offset and not disk.exists(f"{directory}/{FOLDER}"):
        raise StartRefused(
            "metadata-elsewhere",
            f"the metadata of the cluster in {directory} are in Redis",
            why="with another metadata store this broker would be in another cluster; nothing was changed",
            try_=("yak serve --metadata redis", "yak serve --data-dir ANOTHER_DIRECTORY"),
        )
    cluster_id = cluster_id_of(_shared_secret(options, secret_file, disk, directory))
    if image.cluster_id and image.cluster_id != cluster_id:
        raise StartRefused(
            "cluster-secret",
            f"{directory} belongs to cluster {image.cluster_id}, and the secret to cluster {cluster_id}",
            why="the cluster id of a quorum follows from its secret; nothing was changed",
            try_=("yak serve --cluster-secret-file FILE   the file of this cluster's other brokers",),
        )
    state_path = f"{directory}/{_STATE_FILE}"
    log = RaftLog.open(disk, directory, now_ms)
    if log.snapshot:
        try:
            read_snapshot(log.snapshot)
        except ProtocolViolation as violation:
            raise unreadable(log.folder, violation) from violation
    return OpenedQuorum(log, ElectionState.read(disk, state_path), state_path, cluster_id)


def cluster_id_of(secret: ClusterSecret) -> str:
    """The cluster id, which every node can compute before it knows any metadata."""
    digest = hashlib.sha256(b"yak-cluster-id" + bytes.fromhex(secret.to_text())).digest()
    return base64.urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()


def _shared_secret(options: ServeOptions, secret_file: SecretFile, disk: Disk, directory: str) -> ClusterSecret:
    """The cluster's secret, which is on disk afterwards. Only a node that is the whole quorum makes one itself."""
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
    if secret is None and not is_alone:
        raise StartRefused(
            "cluster-secret",
            "the brokers of a metadata quorum share a secret, and this one has none",
            why="each must prove to the others that it belongs to the cluster, before it knows any metadata",
            try_=(
                "yak quorum secret > cluster.secret   once, then copy the file to each machine",
                "yak serve --metadata raft --voters ... --cluster-secret-file cluster.secret",
            ),
        )
    secret = secret or ClusterSecret(SystemRandomSource().secret_bytes(SECRET_BYTES))
    if on_disk is None:
        disk.make_directory(directory)
        secret_file.write_plan(secret).run(disk)
    return secret
