"""What a node of the metadata quorum opens at its start, and what it refuses."""

from contextlib import nullcontext

import pytest

from yak.cluster.image import Image
from yak.errors import StartRefused
from yak.lifecycle.secret_file import SecretFile
from yak.ports.metadata_store import StoreRequest
from yak.protocol.peer_proof import SECRET_BYTES, ClusterSecret
from yak.quorum.raft_log import FOLDER, RaftLog, SnapshotId
from yak.quorum.state_machine import StateMachine, VolatileState, command_batch, write_snapshot
from yak.quorum.voters import VoterSet
from yak.server.options import Metadata, ServeOptions
from yak.server.quorum_files import check_not_in_quorum, cluster_id_of, open_quorum
from yak.sim.disk import SimDisk

FOLDER_OF_METADATA = "/data/__yak_metadata"
SECRET, OTHER = ClusterSecret(b"a" * SECRET_BYTES), ClusterSecret(b"b" * SECRET_BYTES)
BOOTSTRAP = StoreRequest("bootstrap", {"cluster_id": None, "new_cluster_id": "id", "new_incarnation_id": "one"})
THREE = VoterSet.parse("1@one:9092,2@two:9092,3@three:9092")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(FOLDER_OF_METADATA)
    return disk


def opened(disk: SimDisk, *, image: Image | None = None, metadata: Metadata = "raft", on_disk: str = "", **options):
    serve = ServeOptions(metadata=metadata, **options)
    secret_file = SecretFile(disk, FOLDER_OF_METADATA)
    return open_quorum(disk, FOLDER_OF_METADATA, serve, secret_file, image or Image(), 1_000, on_disk)


def append(disk: SimDisk, *requests: StoreRequest) -> None:
    log = RaftLog.open(disk, FOLDER_OF_METADATA, 1_000)
    for request in requests:
        log.append(command_batch(request, VolatileState(), 1_000), 1, 1_000)
    log.flushed(log.flush_plan(), [])


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


def test_given_secret_is_saved_and_another_one_refused(disk):
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
    opened(disk)
    disk.remove(f"{FOLDER_OF_METADATA}/cluster-secret")
    for wrong in ({}, {"cluster_id": "another"}):
        with pytest.raises(StartRefused, match="belongs to cluster elsewhere"):
            opened(disk, image=Image(offset=7, cluster_id="elsewhere"), cluster_secret=SECRET, **wrong)
    assert secret_on(disk) is None


def test_cluster_that_came_from_redis_keeps_its_id_without_the_secrets_file(disk):
    SecretFile(disk, FOLDER_OF_METADATA).write_plan(SECRET).run(disk)
    both = opened(disk, metadata="both", image=Image(offset=7), voters=THREE, on_disk="from-redis")
    assert (both.cluster_id, both.creates_cluster) == ("from-redis", False)
    raft = opened(disk, image=Image(offset=9, cluster_id="from-redis"), voters=THREE)
    assert (raft.cluster_id, raft.creates_cluster) == ("from-redis", False)


def test_new_broker_takes_the_cluster_id_from_the_secrets_file(disk):
    new = opened(disk, metadata="both", voters=THREE, cluster_secret=SECRET, cluster_id="from-redis")
    assert (new.cluster_id, secret_on(disk)) == ("from-redis", SECRET)
    assert opened(disk, voters=THREE, cluster_secret=SECRET, cluster_id="from-redis").creates_cluster


def test_disk_that_knows_a_cluster_creates_none_though_its_copy_of_the_metadata_is_gone(disk):
    on_disk = cluster_id_of(SECRET)
    assert opened(disk, cluster_secret=SECRET).creates_cluster
    assert not opened(disk, cluster_secret=SECRET, on_disk=on_disk).creates_cluster
    assert opened(disk, cluster_secret=SECRET).creates_cluster


def test_disk_that_knows_a_cluster_is_refused_without_the_quorums_log(disk):
    """Under its old directory id an empty log would vote a second time, and lack what it had acknowledged."""
    on_disk = cluster_id_of(SECRET)
    with pytest.raises(StartRefused, match="log in /data/__yak_metadata is missing") as refused:
        opened(disk, voters=THREE, cluster_secret=SECRET, on_disk=on_disk)
    assert refused.value.code == "quorum-log-unreadable"
    assert disk.names(FOLDER_OF_METADATA) == []
    disk.make_directory(refused.value.try_[-1].split()[2])
    assert opened(disk, voters=THREE, cluster_secret=SECRET, on_disk=on_disk).log.end_offset == 0


def test_refusal_without_the_quorums_log_names_the_data_directory_that_has_it(disk):
    disk.make_directory("/more")
    disk.make_directory(f"/more/__yak_metadata/{FOLDER}")
    with pytest.raises(StartRefused, match="is missing") as refused:
        opened(disk, voters=THREE, cluster_secret=SECRET, on_disk=cluster_id_of(SECRET), data_dirs=("/data", "/more"))
    assert refused.value.try_ == ("name /more as the first --data-dir",)


def test_broker_with_the_secrets_file_of_a_cluster_from_redis_creates_no_second_one(disk):
    assert not opened(
        disk, voters=THREE, cluster_secret=SECRET, cluster_id="from-redis", joins_cluster=True
    ).creates_cluster
    own = cluster_id_of(SECRET)
    assert opened(disk, voters=THREE, cluster_secret=SECRET, cluster_id=own, joins_cluster=True).creates_cluster


def test_new_broker_with_both_needs_a_secret_and_a_cluster_id(disk):
    with pytest.raises(StartRefused, match="share a secret"):
        opened(disk, metadata="both", voters=VoterSet.parse("1@one:9092"))
    with pytest.raises(StartRefused, match="is not known") as refused:
        opened(disk, metadata="both", voters=THREE, cluster_secret=SECRET)
    assert any("yak quorum secret --data-dir" in each for each in refused.value.try_)
    assert secret_on(disk) is None


def test_both_needs_voters_until_the_log_has_records(disk):
    SecretFile(disk, FOLDER_OF_METADATA).write_plan(SECRET).run(disk)
    for _ in range(2):
        with pytest.raises(StartRefused, match="needs the voters") as refused:
            opened(disk, metadata="both", on_disk="id")
        assert refused.value.code == "quorum-voters"
    append(disk, BOOTSTRAP)
    assert opened(disk, metadata="both", on_disk="id").log.end_offset == 1


def test_quorum_without_a_cluster_does_not_keep_a_broker_from_redis(disk):
    opened(disk, metadata="both", on_disk="id", voters=THREE, cluster_secret=SECRET, cluster_id="id")
    check_not_in_quorum(disk, FOLDER_OF_METADATA, 1_000)


def test_quorum_with_a_cluster_keeps_a_broker_from_redis_also_behind_a_snapshot(disk):
    append(disk, BOOTSTRAP)
    with pytest.raises(StartRefused, match="are in a quorum") as refused:
        check_not_in_quorum(disk, FOLDER_OF_METADATA, 1_000)
    assert refused.value.code == "metadata-elsewhere"
    machine = StateMachine()
    machine.state.cluster = {"cluster_id": "id", "state": "LIVE"}
    for state, refuses in (("LIVE", True), ("EXPORTED", True), ("MOVED", False)):
        machine.state.cluster["state"] = state
        log = RaftLog.open(disk, FOLDER_OF_METADATA, 1_000)
        offset = log.snapshot_id.end_offset + 5
        log.write_snapshot(SnapshotId(offset, 1), write_snapshot(machine, THREE, 1_000)).run(disk)
        with pytest.raises(StartRefused) if refuses else nullcontext():
            check_not_in_quorum(disk, FOLDER_OF_METADATA, 1_000)


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
