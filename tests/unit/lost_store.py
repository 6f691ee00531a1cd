"""The loss of the metadata store of a simulated cluster, and its end."""

from tests.cluster_rig import ClusterRig


def restore_lost_store(rig: ClusterRig) -> None:
    """The store lost everything; an operator restores it once all brokers have offered their images."""
    rig.cluster.store.flush_all()
    rig.cluster.store.restart()
    for node in rig.nodes:
        node.store_line.block()
        node.store_line.unblock()
    rig.run_until(lambda: len(rig.cluster.store.state.offers) == len(rig.nodes))
    rig.cluster.restore_store()
