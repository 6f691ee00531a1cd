"""Any order of faults: the broker lifecycle never breaks its own rules, and works again once its history is back."""

import copy
import uuid

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cluster.conftest import Driver, identity
from yak.cluster.broker_lifecycle import LifecycleState
from yak.cluster.image import Image
from yak.cluster.topic_changes import NewTopic, plan_create_topic
from yak.errors import PeerError
from yak.sim.store import SimStore

steps = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(1, 6)),
        st.tuples(st.just("time"), st.sampled_from([100, 600, 4_000, 12_000])),
        st.tuples(st.just("lose"), st.just(0)),
        st.tuples(st.just("connect"), st.just(0)),
        st.tuples(st.just("change"), st.sampled_from([1, 250])),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("rollback"), st.integers(1, 5)),
        st.tuples(st.just("flush"), st.just(0)),
    ),
    max_size=30,
)


def apply_step(driver, store, action, amount):
    if action == "step":
        for _ in range(amount):
            if driver.connected and driver.calls:
                driver.answer_one()
            elif driver.connected:
                driver.pump_tail()
    elif action == "time":
        driver.pass_time(amount)
    elif action == "lose" and driver.connected:
        driver.lose()
    elif action == "connect":
        if driver.connected:
            driver.lose()
        driver.connect()
    elif action == "change":
        number = len(driver.scripts) + 1
        try:
            plan = plan_create_topic(driver.image, NewTopic(f"t{number}", amount, 1), uuid.UUID(int=number))
            driver.begin(plan.requests)
        except PeerError:
            pass
    elif action == "rollback":
        store.lose_last(amount)
    elif action == "flush":
        store.flush_all()


@settings(max_examples=150)
@given(actions=steps)
def test_no_order_of_faults_breaks_the_broker_lifecycle(actions):
    store = SimStore()
    driver = Driver(store, identity())
    driver.connect()
    kept = None
    for number, (action, amount) in enumerate(actions):
        if action == "restart":
            if driver.connected:
                driver.lose()
            driver = Driver(store, identity(boot=f"boot-{number + 2}"), driver.image)
            driver.connect()
            continue
        if action in ("rollback", "flush") and kept is None:
            kept = copy.deepcopy((store.state, store._journal))
        before = driver.image
        apply_step(driver, store, action, amount)
        # What was acted on is never taken back: the image only grows, along one chain.
        assert driver.image.offset >= before.offset
        if driver.image.offset == before.offset:
            assert driver.image.chain_hash == before.chain_hash
    if kept is not None and kept[0].cluster and driver.image.offset <= kept[0].cluster["mo"]:
        entry = kept[0].entry(driver.image.offset)
        if entry is None or entry.chain_hash != driver.image.chain_hash:
            return
        store.state, store._journal = kept
    elif kept is not None:
        return
    # The history is back: after a reconnect everything works.
    if driver.connected:
        driver.lose()
    driver.connect().run()
    driver.pass_time(30_000)
    if driver.lifecycle.state is LifecycleState.REFUSED:
        return
    assert driver.lifecycle.state is LifecycleState.ACTIVE, driver.lifecycle.describe()
    assert driver.image.without_position() == Image().apply_all(store.records_after(0, 10**6))[0].without_position()
    for topic in driver.image.topics.values():
        assert {partition.leader for partition in topic.partitions} == {1}
