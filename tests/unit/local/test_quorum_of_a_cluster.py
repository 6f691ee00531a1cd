"""A local cluster whose brokers are their own metadata store: its voters, its secret, its ports."""

import os
import shutil
import socket
import stat
from pathlib import Path

import pytest

from tests.errors import raises_error
from tests.unit.local.local_clusters import said_to
from yak.errors import StartRefused, UsageError, YakError
from yak.local import layout, quorum
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.processes import is_running
from yak.local.state import load, save


def raft(brokers: int | None = None, port: int | None = 0) -> UpSettings:
    return UpSettings(port=port, brokers=brokers, metadata="raft")


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (64, 5)])
def test_a_cluster_of_so_many_brokers_has_an_odd_number_of_voters(brokers: int, voters: int) -> None:
    assert quorum.voters_of(brokers) == voters


def test_up_with_a_quorum_starts_no_redis_and_names_the_voters_to_every_broker(cluster: LocalCluster) -> None:
    result = cluster.up(raft(4))
    status = result.status
    assert (status.metadata, status.voters, status.redis_url, status.redis_running) == ("raft", (1, 2, 3), None, None)
    assert [each.state for each in status.brokers] == ["running"] * 4
    assert not os.path.exists(layout.redis_dir(cluster.data_dir))
    assert list(cluster.log_paths()) == ["node-1", "node-2", "node-3", "node-4"]
    voters = ",".join(f"{broker.node_id}@{broker.address}" for broker in status.brokers[:3])
    for node_id in (1, 2, 3, 4):
        assert f"--metadata raft --voters {voters} --cluster-secret-file" in said_to(cluster, node_id)
        assert "--redis-url" not in said_to(cluster, node_id)
        assert "--port 0" not in said_to(cluster, node_id)
    assert len({broker.address for broker in status.brokers}) == 4


def test_the_secret_is_the_owners_alone_and_stays(cluster: LocalCluster) -> None:
    cluster.up(raft())
    path = Path(layout.secret_path(cluster.data_dir))
    secret = path.read_text()
    assert len(secret.strip()) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    cluster.down()
    cluster.up(UpSettings())
    assert path.read_text() == secret


def test_lost_secret_is_copied_from_a_broker_and_never_generated_again(cluster: LocalCluster) -> None:
    cluster.up(raft())
    cluster.down()
    path = Path(layout.secret_path(cluster.data_dir))
    secret = path.read_text()
    path.unlink()
    with raises_error(StartRefused, "cluster-secret"):
        cluster.up(UpSettings())
    copy = Path(cluster.data_dir, "node-1", layout.METADATA_FOLDER, "cluster-secret")
    copy.parent.mkdir()
    copy.write_text(secret)
    cluster.up(UpSettings())
    assert path.read_text().split() == [secret.strip(), "stand-in"]


def test_the_store_is_remembered_and_cannot_be_changed(cluster: LocalCluster) -> None:
    cluster.up(raft())
    cluster.down()
    with raises_error(UsageError, "metadata-elsewhere"):
        cluster.up(UpSettings(metadata="redis"))
    assert cluster.up(UpSettings(redis_url="redis://ignored:1/0")).status.metadata == "raft"
    cluster.discard()
    cluster.up(UpSettings(port=0))
    with raises_error(UsageError, "metadata-elsewhere"):
        cluster.up(raft())


def test_an_unknown_store_is_refused(cluster: LocalCluster) -> None:
    with raises_error(UsageError, "bad-metadata"):
        cluster.up(UpSettings(metadata="etcd"))


def test_ports_stay_over_restarts_and_a_taken_one_is_an_error(cluster: LocalCluster) -> None:
    before = [broker.address for broker in cluster.up(raft(3)).status.brokers]
    cluster.down()
    assert [broker.address for broker in cluster.up(UpSettings(port=0)).status.brokers] == before
    cluster.down()
    with raises_error(UsageError, "quorum-port"):
        cluster.up(UpSettings(port=9999))
    port = int(before[1].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)), raises_error(UsageError, "quorum-port") as caught:
        cluster.up(UpSettings())
    assert "node 2 cannot listen" in caught.value.message
    assert [broker.address for broker in cluster.up(UpSettings()).status.brokers] == before


def test_the_usual_ports_are_chosen_unless_they_are_taken(cluster: LocalCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = int(other.getsockname()[1])
        with pytest.raises(UsageError) as caught:
            cluster.up(raft(3, port=taken))
    assert caught.value.code == "port-in-use"


def test_a_broker_that_is_added_is_an_observer(cluster: LocalCluster) -> None:
    cluster.up(raft(3))
    assert cluster.add().state == "running"
    assert cluster.status().voters == (1, 2, 3)
    assert cluster.up(UpSettings(brokers=5)).started == (5,)
    assert cluster.status().voters == (1, 2, 3)
    assert said_to(cluster, 5).count("@127.0.0.1") == 3


def test_a_start_that_failed_keeps_its_voters_and_ports(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "2 refuses")
    with pytest.raises(StartRefused):
        cluster.up(raft(3))
    (Path(cluster.data_dir) / "node-1").mkdir(exist_ok=True)
    (Path(cluster.data_dir) / "node-1" / "meta.properties").write_text("cluster.id=begun\n")
    before = [broker.address for broker in cluster.status().brokers]
    monkeypatch.delenv("STAND_IN")
    assert [broker.address for broker in cluster.up(UpSettings()).status.brokers] == before


def test_a_copy_of_the_directory_does_not_start_beside_the_original(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.up(raft())
    copy = LocalCluster(str(tmp_path / "copy"))
    shutil.copytree(cluster.data_dir, copy.data_dir)
    with raises_error(UsageError, "quorum-port"):
        copy.up(UpSettings())


def test_up_during_a_move_starts_brokers_with_both_stores(cluster: LocalCluster) -> None:
    cluster.up(raft(3))
    cluster.down()
    known = load(cluster.data_dir)
    assert known is not None
    known.moving_to, known.redis.url = "redis", "redis://h:1/0"
    save(known)
    assert cluster.up(UpSettings()).status.moving_to == "redis"
    said = said_to(cluster, 1).rpartition("--metadata both --voters 1@")[2]
    assert "cluster.secret --redis-url redis://h:1/0" in said


def test_cluster_with_a_metadata_quorum_has_no_redis_to_stop_or_start(cluster: LocalCluster) -> None:
    cluster.up(raft())
    for action in (cluster.stop_redis, cluster.start_redis):
        with raises_error(YakError, "redis-not-ours") as caught:
            action()
        assert "quorum of its brokers" in caught.value.why


def test_purge_deletes_the_secret_too(cluster: LocalCluster) -> None:
    cluster.up(raft())
    known = load(cluster.data_dir)
    assert known is not None
    cluster.down(purge=True)
    assert not os.path.exists(cluster.data_dir)
    process = known.brokers[0].process
    assert process is not None
    assert not is_running(process)
