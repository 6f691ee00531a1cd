"""Several broker lifecycles over one store, with outages, pauses, kills and false alarms: who holds the office, who is alive."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cluster.conftest import Fleet

ROLES = st.lists(st.sampled_from(["leader", "follower"]), min_size=1, max_size=4)
FAULTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["kill", "kill silently", "pause", "resume", "start", "alarm", "stop", "cut", "outage", "restart", "hang"]
        ),
        st.integers(0, 3),
        st.sampled_from([0, 30, 300, 2_000, 5_600, 7_000, 15_000]),
    ),
    max_size=12,
)


@settings(max_examples=120)
@given(roles=ROLES, faults=FAULTS, seed=st.integers(0, 2**32))
def test_any_faults_leave_one_controller_and_all_brokers_return(roles, faults, seed):
    fleet = Fleet(roles, seed).start()
    fleet.create("a", 3)
    for fault, which, ms in faults:
        node = fleet.nodes[1 + which % len(roles)]
        if fault == "kill" and node.lifecycle is not None:
            fleet.kill(node)
        elif fault == "kill silently" and node.lifecycle is not None:
            fleet.kill(node, noticed=False)
        elif fault == "pause" and node.lifecycle is not None:
            node.is_paused = True
        elif fault == "resume" and node.is_paused:
            node.resume()
        elif fault == "start" and node.lifecycle is None:
            node.start()
        elif fault == "stop" and node.lifecycle is not None and not node.is_paused:
            node.deliver(lambda m, now_ms: m.begin_stopping())
            fleet.run(ms % 100)
            node.deliver(lambda m, now_ms: m.leave(now_ms))
            fleet.run(50)
            node.kill()
        elif fault == "cut" and node.lifecycle is not None:
            node.lose()
            node.later(ms // 2, node.connect)
        elif fault == "alarm" and node.lifecycle is not None:
            fleet.suspect_everywhere(node.node_id, node.lifecycle.broker_epoch)
        elif fault in ("outage", "restart"):
            fleet.outage(ms, restart=fault == "restart")
        elif fault == "hang":
            fleet.hangs_until_ms = fleet.now_ms + ms
        fleet.run(ms)
    fleet.heal()
    fleet.assert_healthy()


@settings(max_examples=60)
@given(
    roles=ROLES,
    faults=st.lists(
        st.tuples(st.sampled_from(["outage", "restart", "hang"]), st.integers(0, 60_000), st.integers(0, 3_000)),
        max_size=6,
    ),
    seed=st.integers(0, 2**32),
)
def test_metadata_store_outage_fences_no_healthy_controller_and_no_broker(roles, faults, seed):
    fleet = Fleet(roles, seed).start()
    fleet.create("a", 3)
    controller, changes = fleet.controller().node_id, len(fleet.kinds("ControllerChange"))
    for fault, ms, pause_ms in faults:
        if fault == "hang":
            fleet.hangs_until_ms = fleet.now_ms + ms
            fleet.run(ms)
        else:
            fleet.outage(ms, restart=fault == "restart")
        fleet.run(pause_ms)
    fleet.run(10_000)
    assert fleet.controller().node_id == controller
    assert len(fleet.kinds("ControllerChange")) == changes
    assert [b for b in fleet.kinds("BrokerChange") if b["state"] != "ACTIVE"] == []
    fleet.assert_healthy()
