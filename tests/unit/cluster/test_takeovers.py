"""Failovers of the office and of leaderships, with their times: killed, stopped, paused, fenced and back."""

import uuid
from functools import partial

import pytest

from tests.unit.cluster.conftest import Driver, Fleet, identity, ignore
from yak.cluster.broker_lifecycle import LifecycleState
from yak.cluster.records import BrokerState
from yak.cluster.topic_changes import NewTopic, plan_create_partitions, plan_create_topic
from yak.ports.metadata_store import StoreOutcome, StoreRequest

ALL = ["leader", "leader", "leader"]


def said(fleet, event):
    return [(node.node_id, say.fields) for node in fleet.nodes.values() for say in node.said if say.event == event]


def until(fleet, condition, limit_ms):
    """Run until it holds; returns how long that took."""
    start_ms = fleet.now_ms
    while not condition():
        assert fleet.now_ms - start_ms <= limit_ms, "not in time"
        fleet.run(1)
    return fleet.now_ms - start_ms


def leaders(fleet):
    return [p.leader for topic in fleet.controller().image.topics.values() for p in topic.partitions]


def all_active(fleet):
    return all(node.lifecycle.state is LifecycleState.ACTIVE for node in fleet.nodes.values())


def all_led(fleet):
    return -1 not in leaders(fleet)


def controller_id(fleet):
    return fleet.store.state.cluster["ctl_id"]


def others(fleet, node_id):
    return [node for node in fleet.nodes.values() if node.node_id != node_id]


def test_brokers_that_start_together_are_in_before_a_heartbeat_interval_is_over():
    fleet = Fleet(ALL, 1)
    for node in fleet.nodes.values():
        node.start()
    took_ms = until(fleet, partial(all_active, fleet), 1_000)
    assert took_ms < 300
    fleet.run(1_000)
    assert len(fleet.kinds("ControllerChange")) == 1, "nobody takes the office from one that has just come"


def test_brokers_that_start_together_again_after_all_were_killed_are_in_soon():
    fleet = Fleet(ALL, 2).start()
    controller = fleet.controller()
    for node in fleet.nodes.values():
        fleet.kill(node, noticed=False)
    fleet.run(60_000)
    waiting = others(fleet, controller.node_id)
    for node in waiting:
        node.start()
    fleet.run(30)
    controller.start()
    took_ms = until(fleet, partial(all_active, fleet), 2_000)
    assert took_ms < 400
    fleet.run(20)
    fleet.assert_healthy()


def test_a_killed_controller_is_fenced_and_replaced_and_its_partitions_led_within_a_few_round_trips():
    fleet = Fleet(ALL, 3).start()
    fleet.create("a", 6)
    dead = fleet.controller()
    fleet.kill(dead)
    took_ms = until(fleet, lambda: controller_id(fleet) != dead.node_id, 200)
    assert took_ms <= 60 + 3 * 4
    fleet.run(20)
    assert dead.node_id not in leaders(fleet)
    assert -1 not in leaders(fleet)
    [(node_id, taken)] = [s for s in said(fleet, "controller-elected") if s[1]["controller_epoch"] == 2]
    assert taken["took_ms"] <= 10
    assert said(fleet, "broker-fenced")[0][0] == node_id
    [(_, elected)] = said(fleet, "leaders-elected")
    assert elected == {"count": 2, "took_ms": elected["took_ms"]}
    assert elected["took_ms"] <= 20


def test_a_killed_broker_is_fenced_by_the_controller_which_elects_without_waiting_for_the_tail():
    fleet = Fleet(ALL, 4).start()
    fleet.create("a", 6)
    dead = others(fleet, controller_id(fleet))[0]
    epoch = dead.lifecycle.broker_epoch
    fleet.kill(dead)
    until(fleet, lambda: fleet.store.state.brokers[dead.node_id]["state"] == "FENCED", 100)
    # Right behind: the very next calls, although no tail has brought the fencing yet.
    fleet.run(1)
    assert all(p["leader"] != dead.node_id for p in fleet.store.state.partitions.values())
    fleet.run(5)
    assert said(fleet, "broker-fenced")[0][1] == {"node_id": dead.node_id, "broker_epoch": epoch, "fast": True}


@pytest.mark.parametrize("seed", range(5))
def test_a_paused_controller_is_replaced_within_the_session(seed):
    fleet = Fleet(ALL, seed).start()
    fleet.create("a", 3)
    fleet.run(seed * 111)
    paused = fleet.controller()
    paused.is_paused = True
    took_ms = until(fleet, lambda: controller_id(fleet) != paused.node_id, 6_500)
    assert took_ms >= 4_500
    fleet.run(20)
    image = others(fleet, paused.node_id)[0].image
    assert image.brokers[paused.node_id].state is BrokerState.FENCED
    assert all(p.leader != paused.node_id for p in image.topics["a"].partitions)


@pytest.mark.parametrize("seed", range(5))
def test_a_paused_broker_is_fenced_within_the_session(seed):
    fleet = Fleet(ALL, seed).start()
    fleet.run(seed * 97)
    paused = others(fleet, controller_id(fleet))[0]
    paused.is_paused = True
    took_ms = until(fleet, lambda: fleet.store.state.brokers[paused.node_id]["state"] == "FENCED", 6_500)
    assert took_ms >= 4_500


@pytest.mark.parametrize("is_controller", [False, True])
def test_a_paused_broker_is_fenced_though_the_store_is_slow_all_the_time(is_controller):
    fleet = Fleet(ALL, 11).start()
    controller = fleet.controller()
    paused = controller if is_controller else others(fleet, controller.node_id)[0]
    fleet.delay = lambda: fleet.rng.randint(700, 900)
    fleet.run(30_000)
    assert all(node.lifecycle.state is LifecycleState.ACTIVE for node in fleet.nodes.values())
    assert said(fleet, "metadata-store-slow")
    paused.is_paused = True
    until(fleet, lambda: fleet.store.state.brokers[paused.node_id]["state"] == "FENCED", 25_000)
    fleet.run(10_000)
    assert [n for n, b in fleet.store.state.brokers.items() if b["state"] == "FENCED"] == [paused.node_id]


def test_a_fenced_broker_that_is_alive_comes_back_at_once_in_another_epoch():
    fleet = Fleet(ALL, 7).start()
    for paused in (fleet.controller(), others(fleet, controller_id(fleet))[0]):
        paused.is_paused = True
        fleet.run(8_000)
        epoch = paused.lifecycle.broker_epoch
        assert fleet.store.state.brokers[paused.node_id]["state"] == "FENCED"
        paused.resume()
        until(
            fleet,
            lambda node=paused: node.lifecycle.state is LifecycleState.ACTIVE and node.lifecycle.broker_epoch,
            1_000,
        )
        until(fleet, lambda node=paused, old=epoch: node.lifecycle.broker_epoch > old, 1_000)
        took_ms = until(fleet, lambda node=paused: node.lifecycle.state is LifecycleState.ACTIVE, 1_000)
        assert took_ms < 300
        assert not fleet.store.state.brokers[paused.node_id]["lossy"]
    assert len(said(fleet, "this-broker-fenced")) == 2
    fleet.run(5_000)
    fleet.assert_healthy()


@pytest.mark.parametrize("seed", range(5))
def test_fenced_broker_whose_heartbeat_arrives_before_the_record_returns_in_another_epoch(seed):
    fleet = Fleet(ALL, seed).start()
    paused = others(fleet, controller_id(fleet))[0]
    paused.is_paused = True
    fleet.run(8_000)
    epoch = paused.lifecycle.broker_epoch
    tailing, paused.pump = paused.pump, lambda: None
    paused.resume()
    fleet.run(3_000)
    assert fleet.store.state.brokers[paused.node_id]["state"] == "FENCED"
    paused.pump = tailing
    fleet.run(5_000)
    assert paused.lifecycle.broker_epoch > epoch
    fleet.assert_healthy()


def test_a_renewal_whose_answer_is_lost_is_not_taken_for_another_broker():
    fleet = Fleet(ALL, 8).start()
    paused = others(fleet, controller_id(fleet))[0]
    paused.is_paused = True
    fleet.run(8_000)
    paused.resume()
    epochs = fleet.store.state.brokers[paused.node_id]
    before = epochs["broker_epoch"]
    until(fleet, lambda: fleet.store.state.brokers[paused.node_id]["broker_epoch"] > before, 1_000)
    assert paused.lifecycle.broker_epoch == before
    paused.lose()
    paused.connect()
    fleet.run(1_000)
    assert paused.lifecycle.broker_epoch == fleet.store.state.brokers[paused.node_id]["broker_epoch"] > before
    fleet.assert_healthy()


def test_single_returning_broker_replaces_a_dead_controller():
    fleet = Fleet(ALL, 9).start()
    controller = fleet.controller()
    alone = others(fleet, controller.node_id)[0]
    for node in fleet.nodes.values():
        fleet.kill(node, noticed=False)
    alone.start()
    until(fleet, lambda: alone.lifecycle.is_controller, 7_000)
    until(fleet, lambda: alone.lifecycle.state is LifecycleState.ACTIVE, 100)


@pytest.mark.parametrize("apart_ms", [(400, 400), (8, 8), (8, 300)])
def test_after_a_power_loss_of_all_every_partition_is_led_again(apart_ms):
    """The first one back must not elect one that is dead: only that one would be in the ISR, and lost something too."""
    for seed in range(40):
        fleet = Fleet(ALL if seed % 2 else ["leader", "follower", "leader"], seed).start()
        fleet.create("t", 6)
        for node in fleet.nodes.values():
            fleet.kill(node, noticed=False)
        for node, up_to_ms in zip(
            fleet.rng.sample(sorted(fleet.nodes.values(), key=lambda n: n.node_id), 3), (*apart_ms, 0), strict=True
        ):
            node.start(lossy=True)
            fleet.run(fleet.rng.randint(0, up_to_ms))
        until(fleet, partial(all_active, fleet), 9_000)
        until(fleet, partial(all_led, fleet), 1_000)


def test_broker_back_alone_without_data_loss_leads_when_the_others_are_known_dead():
    fleet = Fleet(ALL, 3).start()
    fleet.create("t", 6)
    controller = fleet.controller()
    for node in fleet.nodes.values():
        fleet.kill(node, noticed=False)
    controller.start()
    until(fleet, lambda: controller.lifecycle.is_controller and set(leaders(fleet)) == {controller.node_id}, 9_000)


def test_follower_role_broker_defers_to_a_leader_role_broker_in_the_election():
    for seed in range(10):
        fleet = Fleet(["leader", "follower", "leader", "follower"], seed).start()
        dead = fleet.controller()
        assert dead.role == "leader"
        fleet.kill(dead)
        fleet.run(300)
        assert fleet.controller().role == "leader"


def test_follower_role_broker_becomes_controller_at_once_without_a_leader_role_broker():
    fleet = Fleet(["leader", "follower", "follower"], 1).start()
    dead = fleet.controller()
    assert dead.role == "leader"
    fleet.kill(dead)
    took_ms = until(fleet, lambda: controller_id(fleet) != dead.node_id, 500)
    assert took_ms < 80


@pytest.fixture
def returned():
    """Broker 1, which led all partitions, has come back and is in the ISR again; the other brokers lead."""
    fleet = Fleet(["leader", "follower", "follower"], 2).start()
    fleet.create("a", 4)
    assert set(leaders(fleet)) == {1}
    fleet.kill(fleet.nodes[1])
    fleet.run(1_000)
    assert 1 not in leaders(fleet)
    fleet.nodes[1].start()
    until(fleet, lambda: controller_id(fleet) == 1, 500)
    # Its leader brings it back into the ISR; here the store is told so by hand.
    fleet.run(100)
    for node_id in (2, 3):
        node = fleet.nodes[node_id]
        mine = [p for p in node.image.topics["a"].partitions if p.leader == node_id]
        items = [rejoin(node, p, fleet.nodes[1].lifecycle.broker_epoch) for p in mine]
        if items:
            node.deliver(lambda m, now_ms, i=items: m.begin([StoreRequest("alter_isr", {"partitions": i})], ignore)[1])
    return fleet


def test_returning_leader_role_broker_becomes_controller_and_preferred_leader(returned):
    returned.run(50)
    assert 1 not in leaders(returned)
    returned.run(5_500)
    assert set(leaders(returned)) == {1}
    [(node_id, moved)] = said(returned, "preferred-leaders-elected")
    assert (node_id, moved["count"]) == (1, 4)


def test_preferred_elections_that_the_store_refuses_are_repeated(returned):
    """Nothing else changes the image: without a repeat the leaders would stay where they are."""
    accept = refuse(returned, "elect")
    returned.run(6_000)
    assert 1 not in leaders(returned)
    accept()
    returned.run(5_500)
    assert set(leaders(returned)) == {1}


def rejoin(node, partition, epoch):
    """The ISR with broker 1 in it again, as the partition's leader asks for it."""
    members = [f"{n}@{e}" for n, e in partition.isr_members]
    return {
        "topic_id": str(node.image.topics["a"].topic_id),
        "partition": partition.partition,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "isr": ",".join([*members, f"1@{epoch}"]),
        "min_isr": 1,
        "nonce": "x",
    }


def test_half_of_the_brokers_at_most_are_fenced_on_suspicion():
    fleet = Fleet(["leader"] * 4, 5).start()
    controller = fleet.controller()
    for node in others(fleet, controller.node_id):
        node.is_paused = True
        fleet.suspect_everywhere(node.node_id, node.lifecycle.broker_epoch)
    fleet.run(70)
    states = [b["state"] for b in fleet.store.state.brokers.values()]
    assert states.count("FENCED") == 2
    assert [node_id for node_id, _ in said(fleet, "fast-fencing-refused")] == [controller.node_id]
    fleet.heal()
    fleet.assert_healthy()


def test_broker_that_is_dead_and_not_fenced_yet_gets_no_leaders_back():
    fleet = Fleet(ALL, 5).start()
    fleet.create("a", 6)
    controller = fleet.controller()
    first, second = others(fleet, controller.node_id)
    assert set(leaders(fleet)) == set(fleet.nodes)
    fleet.kill(first)
    fleet.run(1_000)
    fleet.kill(second)
    fleet.run(200)
    assert [fields["node_id"] for _, fields in said(fleet, "fast-fencing-refused")] == [second.node_id]
    for _ in range(70):
        assert set(leaders(fleet)) == {controller.node_id}
        fleet.run(100)
    assert {b["state"] for b in fleet.store.state.brokers.values()} == {"ACTIVE", "FENCED"}


def test_broker_incarnation_is_declared_dead_only_once_per_interval():
    fleet = Fleet(ALL, 6).start()
    controller = fleet.controller()
    node = others(fleet, controller.node_id)[0]
    epoch = node.lifecycle.broker_epoch
    first = controller.lifecycle.on_peer_dead(node.node_id, epoch, fleet.now_ms)
    assert [o.request.script for o in first if hasattr(o, "request")] == ["fence"]
    assert controller.lifecycle.on_peer_dead(node.node_id, epoch, fleet.now_ms + 29_000) == []


def test_fast_fence_whose_call_was_lost_is_sent_again_when_the_store_is_back():
    fleet = Fleet(ALL, 6).start()
    controller = fleet.controller()
    node = others(fleet, controller.node_id)[0]
    epoch = node.lifecycle.broker_epoch
    controller.lifecycle.on_peer_dead(node.node_id, epoch, fleet.now_ms)
    controller.lose()
    controller.connect()
    fleet.run(2_000)
    assert controller.lifecycle.state is LifecycleState.ACTIVE
    again = controller.lifecycle.on_peer_dead(node.node_id, epoch, fleet.now_ms)
    assert [o.request.script for o in again if hasattr(o, "request")] == ["fence"]


def test_fast_fence_that_the_store_failed_is_sent_again():
    fleet = Fleet(ALL, 6).start()
    controller = fleet.controller()
    node = others(fleet, controller.node_id)[0]
    epoch = node.lifecycle.broker_epoch
    for _ in range(2):
        outputs = controller.lifecycle.on_peer_dead(node.node_id, epoch, fleet.now_ms)
        calls = [o for o in outputs if hasattr(o, "request")]
        assert [call.request.script for call in calls] == ["fence"]
        failed = StoreOutcome("BAD_REQUEST", value={"message": "simulated"})
        controller.lifecycle.on_replied(calls[0].nonce, failed, fleet.now_ms)


def test_an_old_epoch_and_a_broker_that_is_none_of_our_business_lead_to_nothing():
    fleet = Fleet(ALL, 6).start()
    controller = fleet.controller()
    one, two = others(fleet, controller.node_id)
    assert one.lifecycle.on_peer_dead(two.node_id, two.lifecycle.broker_epoch, fleet.now_ms) == []
    assert one.lifecycle.on_peer_dead(controller.node_id, controller.lifecycle.broker_epoch - 1, fleet.now_ms) == []
    assert controller.lifecycle.on_peer_dead(one.node_id, one.lifecycle.broker_epoch - 1, fleet.now_ms) == []


def test_a_broker_that_stops_has_its_leaderships_moved_first():
    fleet = Fleet(ALL, 10).start()
    fleet.create("a", 6)
    for stopping in (others(fleet, controller_id(fleet))[0], fleet.controller()):
        stopping.deliver(lambda m, now_ms: m.begin_stopping())
        fleet.run(50)
        image = stopping.image
        assert image.brokers[stopping.node_id].state is BrokerState.STOPPING
        assert all(p.leader not in (stopping.node_id, -1) for p in image.topics["a"].partitions)
        assert all(stopping.node_id in p.isr for p in image.topics["a"].partitions)
        assert stopping.lifecycle.state is LifecycleState.ACTIVE
        stopping.deliver(lambda m, now_ms: m.leave(now_ms))
        fleet.run(50)
        assert stopping.lifecycle.state is LifecycleState.LEFT
        fleet.kill(stopping, noticed=False)
    assert sum(fields["count"] for _, fields in said(fleet, "leaders-moved")) >= 4
    [last] = [node for node in fleet.nodes.values() if node.lifecycle is not None]
    assert last.lifecycle.is_controller
    fleet.heal()
    fleet.assert_healthy()


def test_a_broker_that_stops_without_the_store_says_nothing():
    fleet = Fleet(["leader"], 1).start()
    node = fleet.nodes[1]
    node.lose()
    assert node.lifecycle.begin_stopping() == []


def test_a_topic_half_made_by_a_dead_broker_is_removed():
    fleet = Fleet(ALL, 11).start()
    maker = others(fleet, controller_id(fleet))[0]
    half_made(fleet, maker, 500, slices=1)
    assert [p.name for p in fleet.controller().image.pending.values()] == ["big"]
    fleet.run(10_000)
    assert fleet.controller().image.pending, "its maker is alive"
    fleet.kill(maker)
    fleet.run(10_000)
    assert not fleet.controller().image.pending
    assert not fleet.store.state.topics
    assert said(fleet, "incomplete-topic-removed")[0][1] == {"topic": "big"}


def test_growth_that_stopped_half_way_is_finished():
    fleet = Fleet(ALL, 12).start()
    maker = half_grown(fleet)
    fleet.kill(maker)
    fleet.run(4_000)
    assert len(fleet.controller().image.topics["a"].partitions) == 302
    assert said(fleet, "incomplete-partitions-created")[0][1] == {"topic": "a", "partitions": 100}


def test_growth_that_stopped_half_way_is_finished_when_enough_brokers_have_room():
    fleet = Fleet(ALL, 12).start()
    maker = half_grown(fleet)
    alive = [node for node in fleet.nodes.values() if node is not maker]
    for node in alive:
        node.lifecycle.heartbeats.is_full = True
    fleet.kill(maker)
    fleet.run(10_000)
    assert said(fleet, "incomplete-partitions-delayed")
    assert len(fleet.controller().image.topics["a"].partitions) == 2
    for node in alive:
        node.lifecycle.heartbeats.is_full = False
    fleet.run(31_000)
    assert len(fleet.controller().image.topics["a"].partitions) == 302


def refuse(fleet, script):
    """Let the store refuse a script, as a Redis out of memory does; returns what ends it."""
    call = fleet.store.call

    def refuse_script(request, now_ms):
        return StoreOutcome("STORE_ERROR") if request.script == script else call(request, now_ms)

    fleet.store.call = refuse_script
    return lambda: setattr(fleet.store, "call", call)


@pytest.mark.parametrize("script", ["undo_half_made", "create_partitions"])
def test_growth_that_the_store_refuses_to_finish_is_finished_when_it_accepts_it(script):
    fleet = Fleet(ALL, 12).start()
    maker = half_grown(fleet)
    fleet.kill(maker)
    accept = refuse(fleet, script)
    fleet.run(10_000)
    assert len(fleet.controller().image.topics["a"].partitions) == 2
    accept()
    fleet.run(3_000)
    assert len(fleet.controller().image.topics["a"].partitions) == 302


def test_stop_that_the_store_refuses_is_reported_again():
    fleet = Fleet(ALL, 12).start()
    node = others(fleet, controller_id(fleet))[0]
    accept = refuse(fleet, "begin_stop")
    node.deliver(lambda m, now_ms: m.begin_stopping())
    fleet.run(1_000)
    assert fleet.controller().image.brokers[node.node_id].state is BrokerState.ACTIVE
    accept()
    fleet.run(500)
    assert fleet.controller().image.brokers[node.node_id].state is BrokerState.STOPPING


def half_made(fleet, maker, partitions, *, slices):
    plan = plan_create_topic(maker.image, NewTopic("big", partitions, 2), uuid.UUID(int=77))
    maker.deliver(lambda m, now_ms: m.begin(plan.requests[:slices], ignore)[1])
    fleet.run(20)


def half_grown(fleet):
    """A broker whose growth of a topic from 2 to 302 partitions is in the store by one request of several."""
    fleet.create("a", 2)
    maker = others(fleet, controller_id(fleet))[0]
    requests = plan_create_partitions(maker.image, "a", 302, growth_id=uuid.UUID(int=78))
    maker.deliver(lambda m, now_ms: m.begin(requests[:1], ignore)[1])
    fleet.run(20)
    return maker


def test_broker_is_elected_though_the_old_controller_was_unregistered_before_the_answer_came(store):
    one = Driver(store, identity(1)).connect().run()
    two = Driver(store, identity(2)).connect().run()
    for driver in (one, two) * 3:
        driver.pass_time(500)
    assert two.lifecycle.state is LifecycleState.ACTIVE
    two.take(two.lifecycle.on_peer_dead(1, one.lifecycle.broker_epoch, two.now_ms))
    call = two.calls.popleft()
    assert call.request.script == "acquire_lease"
    elected = store.call(call.request, two.now_ms)
    unregistered = StoreRequest("unregister", call.request.arguments | {"target_id": 1})
    assert (elected.code, store.call(unregistered, two.now_ms).code) == ("OK", "OK")
    assert two.pump_tail()
    assert 1 not in two.image.brokers
    two.take(two.lifecycle.on_replied(call.nonce, elected, two.now_ms))
    assert two.lifecycle.is_controller
