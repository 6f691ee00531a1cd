"""What a node of the metadata quorum opens at its start, and what it refuses."""

import pytest

from yak.cluster.image import Image
from yak.cluster.secret_file import SecretFile
from yak.errors import StartRefused
from yak.protocol.peer_proof import SECRET_BYTES, ClusterSecret
from yak.quorum.raft_log import FOLDER, RaftLog, SnapshotId
from yak.quorum.voters import VoterSet
from yak.server.options import ServeOptions
from yak.server.quorum_files import cluster_id_of, open_quorum
from yak.sim.disk import SimDisk

FOLDER_OF_METADATA = "/data/__yak_metadata"
SECRET, OTHER = ClusterSecret(b"a" * SECRET_BYTES), ClusterSecret(b"b" * SECRET_BYTES)
THREE = VoterSet.parse("1@one:9092,2@two:9092,3@three:9092")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(FOLDER_OF_METADATA)
    return disk


def opened(disk: SimDisk, *, image: Image | None = None, **options):
    serve = ServeOptions(metadata="raft", **options)
    return open_quorum(disk, FOLDER_OF_METADATA, serve, SecretFile(disk, FOLDER_OF_METADATA), image or Image(), 1_000)


def secret_on(disk: SimDisk) -> ClusterSecret | None:
    return SecretFile(disk, FOLDER_OF_METADATA).read()


def test_broker_that_is_the_whole_quorum_makes_a_secret_and_keeps_it(disk):
    first = opened(disk)
    assert secret_on(disk) is not None
    assert opened(disk).cluster_id == first.cluster_id == cluster_id_of(secret_on(disk))


def test_voters_need_a_shared_secret(disk):
    with pytest.raises(StartRefused, match="share a secret") as refused:
        opened(disk, voters=THREE)
    assert refused.value.code == "cluster-secret"
    assert secret_on(disk) is None


def test_given_secret_is_kept_and_another_one_is_refused(disk):
    cluster_id = opened(disk, voters=THREE, cluster_secret=SECRET).cluster_id
    assert secret_on(disk) == SECRET
    assert opened(disk, voters=THREE).cluster_id == cluster_id
    with pytest.raises(StartRefused, match="not that of the data directory"):
        opened(disk, voters=THREE, cluster_secret=OTHER)
    assert secret_on(disk) == SECRET


def test_directory_of_a_cluster_with_redis_is_refused(disk):
    with pytest.raises(StartRefused, match="are in Redis") as refused:
        opened(disk, image=Image(offset=7))
    assert refused.value.code == "metadata-elsewhere"
    assert not disk.exists(f"{FOLDER_OF_METADATA}/{FOLDER}")


def test_directory_of_another_cluster_is_refused(disk):
    opened(disk, cluster_secret=SECRET)
    with pytest.raises(StartRefused, match="belongs to cluster elsewhere"):
        opened(disk, image=Image(offset=7, cluster_id="elsewhere"))


def test_unreadable_vote_is_refused(disk):
    opened(disk, cluster_secret=SECRET)
    disk.write_file(f"{FOLDER_OF_METADATA}/quorum-state", b"{")
    with pytest.raises(StartRefused, match="cannot be read") as refused:
        opened(disk)
    assert refused.value.code == "quorum-state-unreadable"


def test_damaged_snapshot_is_refused(disk):
    opened(disk, cluster_secret=SECRET)
    log = RaftLog.open(disk, FOLDER_OF_METADATA, 1_000)
    log.write_snapshot(SnapshotId(5, 1), b"damaged").run(disk)
    with pytest.raises(StartRefused) as refused:
        opened(disk)
    assert refused.value.code == "quorum-log-unreadable"
