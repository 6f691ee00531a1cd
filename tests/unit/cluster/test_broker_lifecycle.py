import dataclasses
import uuid

import pytest

from tests.unit.cluster.conftest import Driver, identity
from yak.cluster.broker_lifecycle import LifecycleState
from yak.cluster.image import Image
from yak.cluster.refusals import frozen
from yak.cluster.topic_changes import NewTopic, plan_alter, plan_create_topic, plan_producer_ids
from yak.errors import ErrorCode, PeerError
from yak.metadata_store.checks import change_broker
from yak.ports.metadata_store import StoreOutcome, StoreRequest


def topic(driver, name, partitions=1, number=7):
    return plan_create_topic(driver.image, NewTopic(name, partitions, 1), uuid.UUID(int=number)).requests


@pytest.fixture
def driver(store):
    """The only broker of its cluster, in."""
    return Driver(store, identity()).connect().run()


def test_a_first_broker_makes_the_cluster_and_is_ready_in_five_calls(driver):
    assert driver.lifecycle.state is LifecycleState.ACTIVE
    assert driver.ready == 1
    assert driver.scripts[:5] == ["verify", "bootstrap", "register", "acquire_lease", "unfence"]
    assert driver.image.controller_id == 1
    assert driver.image.brokers[1].broker_epoch == driver.lifecycle.broker_epoch == 2
    assert driver.image.cluster_id == driver.lifecycle.describe()["cluster_id"]


def test_restarted_broker_leads_its_partitions_again_after_one_batch_of_elections_a_turn(store):
    first = Driver(store, identity()).connect().run()
    assert first.change(topic(first, "a", 450)).error is None
    second = Driver(store, identity(boot="boot-2"), first.image).connect().run()
    assert second.ready == 0
    assert second.scripts.count("elect") == 1
    second.pass_time(5)
    assert second.ready == 1
    assert second.scripts.count("elect") == 5
    partitions = second.image.topics["a"].partitions
    assert {p.leader for p in partitions} == {1}
    assert {p.leader_epoch for p in partitions} == {1}
    assert {p.partition_epoch for p in partitions} == {1}
    assert {member.broker_epoch for p in partitions for member in p.isr_members} == {second.lifecycle.broker_epoch}


def test_election_refused_by_the_store_is_retried_at_intervals(store):
    first = Driver(store, identity()).connect().run()
    assert first.change(topic(first, "a", 3)).error is None
    second = Driver(store, identity(boot="boot-2"), first.image)
    call = store.call

    def refuse_elections(request, now_ms):
        return StoreOutcome("STORE_ERROR") if request.script == "elect" else call(request, now_ms)

    store.call = refuse_elections
    second.connect().run().pass_time(2_000)
    assert second.ready == 0
    assert second.scripts.count("elect") <= 6
    store.call = call
    second.pass_time(1_000)
    assert second.ready == 1


def test_broker_that_reconnects_continues_with_its_epoch_and_starts_no_election(driver, store):
    driver.change(topic(driver, "a"))
    epoch, offset = driver.lifecycle.broker_epoch, driver.image.offset
    driver.lose()
    assert driver.lifecycle.state is LifecycleState.DISCONNECTED
    with pytest.raises(PeerError) as error:
        driver.begin(topic(driver, "b"))
    assert error.value.error_code is ErrorCode.request_timed_out
    driver.pass_time(10_000)
    store.restart()
    driver.connect().run()
    assert driver.lifecycle.state is LifecycleState.ACTIVE
    assert driver.lifecycle.broker_epoch == epoch
    assert driver.image.offset == offset
    assert driver.ready == 1


def test_a_change_without_an_answer_is_repeated_and_counts_once(driver, store):
    change_id = driver.begin(topic(driver, "a", 401))
    call = driver.calls[0]
    store.call(call.request, driver.now_ms)
    driver.lose()
    driver.connect().run()
    assert driver.done[change_id].error is None
    assert len(driver.image.topics["a"].partitions) == 401
    assert [r.kind for r in driver.persisted].count("Topic") == 1


def test_a_creation_is_not_repeated_under_another_registration(driver, store):
    change_id = driver.begin(topic(driver, "a"))
    call = driver.calls[0]
    assert store.call(call.request, driver.now_ms).code == "OK"
    driver.lose()
    epoch = driver.lifecycle.broker_epoch
    deletion = dataclasses.replace(call.request, script="delete_topic")
    assert store.call(deletion, driver.now_ms).value == {"removed": True}
    change_broker(store.state, 1, "FENCED", driver.now_ms)
    driver.connect()
    while driver.calls[0].request.script != "create_topic":
        driver.answer_one()
    driver.pump_tail()
    driver.run()
    assert driver.lifecycle.broker_epoch > epoch
    assert driver.done[change_id].error.error_code is ErrorCode.request_timed_out
    assert not store.state.topics
    assert driver.change(topic(driver, "a", number=9)).error is None


def test_a_topic_that_exists_in_the_store_only_is_refused_with_kafkas_code(driver):
    again = topic(driver, "a", number=8)
    driver.change(topic(driver, "a", number=7))
    done = driver.change(again)
    assert done.error is not None
    assert done.error.error_code is ErrorCode.topic_already_exists


def test_producer_id_blocks_do_not_overlap(driver):
    blocks = [driver.change([plan_producer_ids()]).values[0] for _ in range(3)]
    assert blocks == [{"first": n, "next": n + 1000} for n in (0, 1000, 2000)]
    assert driver.image.next_producer_id == 3000


def test_a_rolled_back_store_freezes_the_broker_until_its_history_is_back(driver, store):
    driver.change(topic(driver, "a"))
    before = store.state
    store.lose_last(2)
    driver.pass_time(600)
    assert driver.lifecycle.state is LifecycleState.FROZEN
    assert "rolled back" in driver.lifecycle.reason
    with pytest.raises(PeerError):
        driver.begin(topic(driver, "b"))
    offset = driver.image.offset
    driver.pass_time(4_000)
    assert driver.lifecycle.state is LifecycleState.FROZEN
    assert driver.image.offset == offset
    store.state = before
    driver.pass_time(5_000)
    assert driver.lifecycle.state is LifecycleState.ACTIVE
    assert driver.change(topic(driver, "b", number=9)).error is None


def move(store, script, migration_id=1):
    return store.call(StoreRequest(script, {"cluster_id": "", "migration_id": migration_id}), 0).code


def test_broker_checks_again_within_200_ms_while_the_metadata_are_moved(driver, store):
    assert move(store, "export_metadata") == "OK"
    driver.pass_time(1_500)
    assert driver.lifecycle.state is LifecycleState.FROZEN
    assert driver.lifecycle.reason == ("the metadata are being moved to another store. Produce and fetch continue")
    assert "seed_offer" not in driver.scripts
    assert move(store, "cancel_export") == "OK"
    driver.pass_time(250)
    assert driver.lifecycle.state is LifecycleState.ACTIVE
    assert driver.change(topic(driver, "b", number=9)).error is None


def test_broker_offers_nothing_to_a_store_whose_metadata_were_moved(driver, store):
    assert move(store, "export_metadata") == "OK"
    assert move(store, "close_exported") == "OK"
    driver.pass_time(5_000)
    assert driver.lifecycle.state is LifecycleState.FROZEN
    assert "--metadata both" in driver.lifecycle.reason
    assert "seed_offer" not in driver.scripts
    assert store.state.cluster["state"] == "MOVED"
    fresh = Driver(store, identity(2)).connect().run()
    assert fresh.lifecycle.state is LifecycleState.FROZEN
    assert fresh.lifecycle.reason.endswith("The broker does not serve yet")


def test_an_emptied_store_is_not_made_into_a_new_cluster(driver, store):
    store.flush_all()
    driver.lose()
    driver.connect().run()
    assert driver.lifecycle.state is LifecycleState.FROZEN
    assert "empty" in driver.lifecycle.reason
    assert store.state.cluster["state"] == "SEEDING"
    fresh = Driver(store, identity(boot="b2", cluster_id=driver.image.cluster_id)).connect().run()
    assert fresh.lifecycle.state is LifecycleState.FROZEN
    assert not store.state.log


def test_a_store_that_was_rolled_back_and_went_on_is_a_fork(driver, store):
    driver.change(topic(driver, "a"))
    store.lose_last(2)
    other = Driver(store, identity(2)).connect().run().pass_time(11_000)
    other.change(topic(other, "b", number=9))
    # The tail brings records of the other history first: they must not be taken.
    driver.pump_tail()
    assert driver.lifecycle.state is LifecycleState.FROZEN
    assert "a" in driver.image.topics
    assert "b" not in driver.image.topics
    driver.pass_time(4_000)
    assert driver.lifecycle.state is LifecycleState.FROZEN


def test_the_data_directory_of_another_cluster_is_refused(store):
    Driver(store, identity()).connect().run()
    driver = Driver(store, identity(2, cluster_id="another")).connect().run()
    assert driver.refused is not None
    assert driver.refused.code == "wrong-cluster"
    assert driver.ready == 0


def test_a_node_id_that_is_alive_elsewhere_is_refused(store):
    first = Driver(store, identity()).connect().run()
    second = Driver(store, identity(boot="boot-2", directory="other")).connect().run()
    assert second.lifecycle.state is LifecycleState.REGISTERING
    first.pass_time(2_000)
    second.pass_time(2_000)
    assert second.refused is not None
    assert second.refused.code == "node-id-in-use"
    assert "127.0.0.1:9093" in second.refused.message


def test_a_node_id_whose_other_boot_is_silent_is_taken_over(store):
    Driver(store, identity()).connect().run()
    second = Driver(store, identity(boot="boot-2", directory="other")).connect().run()
    second.pass_time(12_000)
    assert second.lifecycle.state is LifecycleState.ACTIVE


def test_broker_on_a_new_disk_does_not_take_a_leader_change_of_the_store_for_a_heartbeat(store):
    """A new leader of the quorum moves the counters of all brokers, dead ones too."""
    Driver(store, identity()).connect().run()
    second = Driver(store, identity(boot="boot-2", directory="other")).connect().run()
    second.pass_time(500)
    store.state.heartbeats[1] += 1 << 20
    second.lose()
    second.connect().run().pass_time(12_000)
    assert second.refused is None
    assert second.lifecycle.state is LifecycleState.ACTIVE


def test_late_registration_of_a_killed_predecessor_does_not_end_its_successor(store):
    """The store was paused when both registered, and executed the call of the dead process last."""
    before = Driver(store, identity()).connect().run()
    killed = Driver(store, identity(boot="boot-2"), before.image).connect()
    killed.answer_one()
    late = killed.calls[0].request
    assert late.script == "register"
    again = Driver(store, identity(boot="boot-3"), before.image).connect()
    while "register" not in again.scripts:
        again.answer_one()
    assert store.call(late, again.now_ms).code == "OK"
    again.run().pass_time(12_000)
    assert again.refused is None
    assert again.lifecycle.state is LifecycleState.ACTIVE
    assert store.state.brokers[1]["boot_id"] == "boot-3"
    assert not store.state.brokers[1]["lossy_epoch"]


def test_a_broker_whose_node_id_was_taken_over_stops(store):
    first = Driver(store, identity()).connect().run()
    Driver(store, identity(boot="boot-2"), first.image).connect().run()
    first.pass_time(1_000)
    assert first.refused is not None
    assert first.refused.code == "broker-replaced"


@pytest.mark.parametrize("lossy", [False, True])
def test_restarted_broker_whose_registration_was_rolled_back_registers_again(store, lossy):
    """The store still holds the boot before; the registration after it was on nobody's disk yet."""
    first = Driver(store, identity()).connect().run()
    again = Driver(store, identity(boot="boot-2", lossy=lossy), first.image).connect()
    while "register" not in again.scripts:
        again.answer_one()
    store.lose_last(1)
    again.lose()
    again.connect().run()
    assert again.refused is None
    again.pass_time(12_000)
    assert again.lifecycle.state is LifecycleState.ACTIVE
    assert store.state.brokers[1]["boot_id"] == "boot-2"
    assert store.state.brokers[1]["lossy"] is lossy


@pytest.mark.parametrize("loses_metadata", [False, True])
def test_broker_whose_copy_of_the_metadata_lost_its_end_is_lossy(store, loses_metadata):
    """The folder of a topic in the lost records may be gone too, and an empty log must not count as in sync."""
    first = Driver(store, identity()).connect().run()
    first.pass_time(12_000)
    older = first.image
    first.change(topic(first, "a", 1))
    first.pass_time(12_000)
    image = older if loses_metadata else first.image
    Driver(store, identity(boot="boot-2"), image).connect().run()
    assert store.state.brokers[1]["boot_id"] == "boot-2"
    assert store.state.brokers[1]["lossy"] is loses_metadata


def test_a_second_broker_is_unfenced_by_the_controller_once_its_heartbeats_move(store):
    first = Driver(store, identity(1)).connect().run()
    second = Driver(store, identity(2)).connect().run()
    assert second.lifecycle.state is LifecycleState.CATCHING_UP
    for _ in range(6):
        second.pass_time(500)
        first.pass_time(500)
    assert second.ready == 1
    assert not second.lifecycle.is_controller


def test_the_controller_fences_a_silent_broker_and_moves_on(store):
    first = Driver(store, identity(1)).connect().run()
    second = Driver(store, identity(2)).connect().run()
    for _ in range(6):
        second.pass_time(500)
        first.pass_time(500)
    first.change(topic(first, "a", 2))
    assert {p.leader for p in first.image.topics["a"].partitions} == {1, 2}
    first.pass_time(7_000)
    assert first.image.brokers[2].state == "FENCED"
    assert {p.leader for p in first.image.topics["a"].partitions} == {1, -1}
    for _ in range(6):
        second.pass_time(500)
        first.pass_time(500)
    assert {p.leader for p in first.image.topics["a"].partitions} == {1, 2}


def test_controller_whose_lease_expires_is_replaced(store):
    Driver(store, identity(1)).connect().run()
    second = Driver(store, identity(2)).connect().run()
    second.now_ms += 1
    second.pass_time(11_000)
    assert second.lifecycle.is_controller
    assert second.image.controller_epoch == 2
    assert second.lifecycle.state is LifecycleState.ACTIVE


def test_store_that_is_lost_again_before_it_answered_is_logged_once(driver):
    for _ in range(3):
        driver.lose()
        driver.connect()  # and a quorum's leader that resigns refuses the first call
    driver.lose("timed out")
    assert [each.fields["reason"] for each in driver.said if each.event == "metadata-store-lost"] == [
        "connection reset",
        "timed out",
    ]
    driver.connect().run()
    driver.lose("timed out")
    assert [each.event for each in driver.said].count("metadata-store-lost") == 3


def test_leaving_closes_the_broker_and_a_restart_needs_no_wait(driver, store):
    driver.take(driver.lifecycle.leave(driver.now_ms))
    driver.run()
    assert driver.left
    assert store.state.brokers[1]["state"] == "CLOSED"
    second = Driver(store, identity(boot="boot-2", directory="new"), driver.image).connect().run()
    assert second.ready == 1


def test_leaving_without_an_answer_takes_no_more_than_its_time(driver):
    driver.take(driver.lifecycle.leave(driver.now_ms))
    driver.calls.clear()
    driver.pass_time(2_000)
    assert driver.left


def test_leaving_while_the_store_is_away_is_immediate(store):
    driver = Driver(store, identity())
    driver.take(driver.lifecycle.leave(driver.now_ms))
    assert driver.left


def test_high_watermarks_are_reported_together_and_only_when_changed(driver, store):
    driver.change(topic(driver, "a", 2))
    topic_id = driver.image.topics["a"].topic_id
    for value in range(1, 50):
        driver.lifecycle.high_watermarks.note(topic_id, 0, 0, value, {2: value - 1, 1: value})
        driver.lifecycle.high_watermarks.note(topic_id, 1, 0, value * 2, {1: value * 2})
    driver.pass_time(1_000)
    assert driver.scripts.count("report_hw") == 1
    assert store.state.high_watermarks == {(str(topic_id), 0): (0, 49), (str(topic_id), 1): (0, 98)}
    assert store.state.log_end_offsets[str(topic_id), 0] == (0, {"1": 49, "2": 48})


def test_unsafe_store_is_reported(store):
    words = "appendonly is no: a crash of the store loses metadata"
    lenient = Driver(store, identity()).connect((words,)).run()
    assert lenient.lifecycle.describe()["unsafe_settings"] == [words]


def test_message_for_a_trimmed_offset_says_what_to_do():
    words = frozen(StoreOutcome("TRIMMED", 9, ""), Image(), is_serving=False)
    assert "`snapshot` and `*.log` in its __yak_metadata aside" in words, "a quorum's voter has its votes there too"
    assert "before that history is back" not in words


def test_store_that_refuses_each_heartbeat_is_logged_once_a_minute(driver, store):
    call, full = store.call, StoreOutcome("STORE_ERROR", value={"message": "OOM command not allowed"})
    store.call = lambda request, now_ms: full
    driver.pass_time(59_000)
    refused = [each.fields for each in driver.said if each.event == "metadata-call-refused"]
    assert refused == [{"code": "STORE_ERROR", "reason": "OOM command not allowed"}]
    driver.pass_time(10_000)
    assert [each.event for each in driver.said].count("metadata-call-refused") == 2
    store.call = call
    driver.pass_time(5_000)
    assert driver.lifecycle.state is LifecycleState.ACTIVE


def test_topic_whose_creation_and_removal_the_store_refused_is_removed_later(driver, store):
    call = store.call

    def refuse_the_rest(request, now_ms):
        is_refused = request.script in ("create_partitions", "delete_topic")
        return StoreOutcome("STORE_ERROR", value={"message": "MISCONF"}) if is_refused else call(request, now_ms)

    store.call = refuse_the_rest
    assert driver.change(topic(driver, "a", 300)).error is not None
    store.call = call
    assert driver.image.pending
    driver.pass_time(10_000)
    assert driver.image.pending, "its creator lives, and may go on"
    driver.pass_time(60_000)
    assert not driver.image.pending
    assert driver.change(topic(driver, "a", 300, number=8)).error is None


def test_change_whose_client_left_is_not_made_when_the_store_is_back(store):
    one = Driver(store, identity(1)).connect().run()
    two = Driver(store, identity(2)).connect().run()
    for driver in (one, two) * 3:
        driver.pass_time(500)
    change_id = one.begin(plan_alter("quota", "a", {"producer_byte_rate": "1"}))
    one.lose()
    one.lifecycle.changes.abandon(change_id)  # the client got REQUEST_TIMED_OUT, and asked another broker
    assert two.change(plan_alter("quota", "a", {"producer_byte_rate": "2"})).error is None
    one.connect().run()
    assert one.image.quotas == {"a": {"producer_byte_rate": "2"}}
