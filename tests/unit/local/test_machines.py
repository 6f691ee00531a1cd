"""A local cluster with several brokers a machine, `yak up --cores`: who shares what, and what is refused."""

from pathlib import Path

from tests.errors import raises_error
from tests.unit.local.local_clusters import free_row, said_to
from yak.errors import UsageError
from yak.local import cluster_plan, layout, machines
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.migration import Migration
from yak.local.state import ClusterState, RedisState


def planned(**settings: object) -> ClusterState:
    known = ClusterState("/d", RedisState(""))
    cluster_plan.plan(known, UpSettings(**{"cores": 2, "no_http": True, **settings}))  # type: ignore[arg-type]
    return known


def test_up_with_cores_counts_brokers_and_leaders_in_machines() -> None:
    base = free_row(7)
    known = planned(port=base, brokers=3, leaders=2)
    assert [each.node_id for each in known.brokers] == [1, 2, 3, 4, 5, 6]
    assert "".join(each.role[0] for each in known.brokers) == "llllff"
    assert machines.bootstrap(known) == f"127.0.0.1:{base}"
    assert [each.port for each in known.brokers] == [base + 1 + index for index in range(6)]
    assert [machines.machine_of(known, each.node_id) for each in known.brokers][1:4] == [
        "machine:1",
        "machine:2",
        "machine:2",
    ]
    assert machines.mates(known, 4) == (3, 4)


def test_up_without_leaders_gives_the_first_machine_the_role() -> None:
    assert "".join(each.role[0] for each in planned(port=0, brokers=2).brokers) == "llff"


def test_quorum_of_machines_has_one_voter_a_machine() -> None:
    assert planned(port=0, brokers=3, metadata="raft").voters == (1, 3, 5)
    assert planned(port=0, brokers=2, metadata="raft").voters == (1,)


def test_move_to_a_quorum_chooses_one_voter_a_machine(tmp_path: Path) -> None:
    """Nodes 1 and 2 are one machine, whose death would have stopped a quorum of nodes 1, 2 and 3."""
    known = planned(brokers=2, cores=2)
    for broker in known.brokers:
        broker.data_dir = str(tmp_path)
    known.data_dir = str(tmp_path)
    (tmp_path / "meta.properties").write_text("cluster.id=id\n")
    secret = tmp_path / layout.METADATA_FOLDER / "cluster-secret"
    secret.parent.mkdir()
    secret.write_text("ab" * 32)
    said: list[str] = []
    Migration(known, lambda _broker: None, said.append)._begin("raft", None)
    assert known.voters == (1,)
    assert said == ["first voters of the quorum: 1"]


def test_replication_of_new_topics_follows_the_number_of_machines() -> None:
    known = planned(port=0, brokers=2)
    assert len(machines.machines(known)) == 2
    assert "default.replication.factor=2" in cluster_plan.replication_configs(2, ())
    assert cluster_plan.replication_configs(1, ()) == ()


def test_cluster_with_one_core_is_as_before() -> None:
    known = planned(port=0, brokers=2, cores=None)
    assert (known.cores, known.shared_port, machines.bootstrap(known)) == (1, 0, None)
    assert machines.serve_configs(known, known.brokers[0]) == ()
    assert machines.mates(known, 2) == (2,)


def test_other_number_of_cores_is_refused_for_an_existing_cluster(tmp_path: Path, stand_in: None) -> None:
    cluster = LocalCluster(str(tmp_path / "c"))
    try:
        status = cluster.up(UpSettings(port=0, cores=2)).status
        assert [each.machine for each in status.brokers] == ["machine:1", "machine:1"]
        port = int(status.bootstrap.rpartition(":")[2])
        assert port not in {int(each.address.rpartition(":")[2]) for each in status.brokers}
        said = said_to(cluster, 2)
        assert "broker.rack=machine:1" in said
        assert f"yak.bootstrap.listeners=PLAINTEXT://127.0.0.1:{port}" in said
        with raises_error(UsageError, "cluster-cores"):
            cluster.up(UpSettings(cores=3))
        assert cluster.up(UpSettings(port=port)).started == ()
        cluster.down()
        again = cluster.up(UpSettings(brokers=2)).status
        assert (len(again.brokers), again.bootstrap) == (4, status.bootstrap)
    finally:
        cluster.discard()


def test_listeners_by_config_and_cores_exclude_each_other() -> None:
    known = planned(port=0, brokers=1, configs=("listeners=PLAINTEXT://127.0.0.1:1",))
    with raises_error(UsageError, "up-listeners"):
        machines.serve_configs(known, known.brokers[0])


def test_cluster_without_http_that_grows_stays_without_it_until_a_port_is_requested() -> None:
    known = planned(port=0, brokers=1)
    known.cluster_id = "it has started"
    cluster_plan.plan(known, UpSettings(brokers=2))
    assert [each.http_port for each in known.brokers] == [None] * 4
    assert cluster_plan.add_broker(known, "follower", None).http_port is None
    cluster_plan.plan(known, UpSettings(http_port=0))
    assert all(each.http_port for each in known.brokers)
