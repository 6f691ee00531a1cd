"""Which broker of a local cluster may be removed, and what is deleted of it."""

from pathlib import Path
from typing import Any

import pytest

from yak.errors import YakError
from yak.local import layout, quorum, state
from yak.local.cluster import LocalCluster
from yak.local.cluster_plan import UpSettings, plan
from yak.local.state import BrokerState, ClusterState, RedisState


def broker(folder: Path, node_id: int) -> BrokerState:
    return BrokerState(node_id, "leader", "127.0.0.1", 0, layout.node_dir(str(folder), node_id))


def cluster_of(folder: Path, *nodes: int, **more: Any) -> ClusterState:
    known = ClusterState(str(folder), RedisState("", None, is_ours=True), "id", **more)
    known.brokers = [broker(folder, node_id) for node_id in nodes]
    state.save(known)
    return known


@pytest.mark.parametrize(
    ("nodes", "more", "slug"),
    [
        ((1,), {}, "last-broker"),
        ((1, 2), {"voters": (2,)}, "last-broker"),
        ((1, 2), {"voters": (1, 2)}, "last-broker"),
        ((1, 4, 2), {"voters": (1, 2, 3)}, "last-broker"),
        ((1, 2, 3), {"moving_to": "raft"}, "metadata-moving"),
        ((1, 3), {}, "unknown-node"),
    ],
)
def test_a_broker_that_the_cluster_cannot_do_without_is_not_removed(tmp_path, nodes, more, slug):
    cluster_of(tmp_path, *nodes, **more)
    with pytest.raises(YakError) as refused:
        LocalCluster(str(tmp_path)).check_removal(nodes[-1] if slug != "unknown-node" else 2)
    assert refused.value.code == slug


def test_a_broker_among_others_may_be_removed(tmp_path):
    for voters in ((), (1,), (1, 2, 3)):
        cluster_of(tmp_path, 1, 2, 3, voters=voters)
        LocalCluster(str(tmp_path)).check_removal(2)


@pytest.mark.parametrize("stray", [False, True])
def test_the_directory_of_a_removed_broker_is_deleted_unless_it_has_strays(tmp_path, stray):
    gone = broker(tmp_path, 2)
    (Path(gone.data_dir) / ("orders-0.ab-stray" if stray else "__yak_metadata")).mkdir(parents=True)
    ready = Path(layout.ready_file(str(tmp_path), 2))
    ready.parent.mkdir()
    ready.write_text("{}")
    layout.forget_node(str(tmp_path), gone)
    assert Path(gone.data_dir).exists() == stray
    assert not ready.exists()


def test_a_cluster_that_grows_behind_a_removal_uses_no_number_twice(tmp_path):
    known = cluster_of(tmp_path, 1, 3)
    plan(known, UpSettings(brokers=4))
    assert [each.node_id for each in known.brokers] == [1, 3, 4, 5]
    known = cluster_of(tmp_path, 1, 2, voters=(1, 2, 3))
    plan(known, UpSettings(brokers=3))
    assert [each.node_id for each in known.brokers] == [1, 2, 4]


def test_start_names_no_voter_that_yak_up_does_not_have(tmp_path):
    """A voter that was removed, or that joined with yak serve: it ended each yak up with a bug."""
    known = cluster_of(tmp_path, 1, 2, voters=(1, 2, 9), metadata="raft")
    found = quorum.prepare(known)
    assert found is not None
    assert found.voters == "1@127.0.0.1:0,2@127.0.0.1:0"
