import uuid
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yak.cluster.controller import needed_elections
from yak.cluster.image import ChainBroken, Image
from yak.cluster.payload import BadRecord
from yak.cluster.snapshot import read_snapshot, write_snapshot
from yak.ports.metadata_store import StoreRequest, TailedRecord

TOPIC = uuid.UUID(int=7)


def chain(*contents, first=1, previous="", start_ms=1000):
    """Records of (kind, payload), one after the other."""
    records = []
    for offset, (kind, payload) in enumerate(contents, start=first):
        hash_ = f"h{offset}{kind}"
        records.append(TailedRecord(offset, hash_, kind, start_ms + offset, {"version": 0} | payload, previous))
        previous = hash_
    return records


def register(node_id=1, epoch=2, **more):
    return "RegisterBroker", {
        "node_id": node_id,
        "broker_epoch": epoch,
        "boot_id": "b",
        "directories": "d1,d2",
        "host": "h",
        "port": 9092,
        "rack": None,
        "role": "leader",
        "lossy": False,
    } | more


def topic(name="a", topic_id=TOPIC, partitions=1, configs=None):
    payload = {"name": name, "topic_id": str(topic_id), "partitions": partitions}
    return "Topic", payload if configs is None else payload | {"configs": configs}


def partitions(*numbers, topic_id=TOPIC):
    items = [
        {"partition": n, "replicas": "1,2", "isr": "1@2", "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
        for n in numbers
    ]
    return "Partition", {"topic_id": str(topic_id), "partitions": items}


def change(number=0, topic_id=TOPIC, leader=2, epoch=1, isr="2@5", **more):
    item = {"topic_id": str(topic_id), "partition": number, "isr": isr, "elr": "1@2", "leader": leader} | more
    return "PartitionChange", {"changes": [item | {"leader_epoch": epoch, "partition_epoch": epoch, "unclean": False}]}


BROKEN_CHANGE = change()[1]["changes"][0]
CLUSTER = ("Cluster", {"cluster_id": "c", "incarnation": 1, "incarnation_id": "i"})


def test_records_fold_into_the_clusters_state():
    records = chain(
        CLUSTER,
        register(),
        ("ControllerChange", {"controller_id": 1, "controller_epoch": 3, "broker_epoch": 2}),
        ("BrokerChange", {"node_id": 1, "broker_epoch": 2, "state": "ACTIVE"}),
        ("BrokerChange", {"node_id": 1, "broker_epoch": 1, "state": "FENCED"}),
        topic(configs={"k": "v"}),
        partitions(0),
        ("ProducerIds", {"node_id": 1, "broker_epoch": 2, "first": 0, "next": 1000}),
        ("Config", {"resource_type": "broker", "resource_name": "", "configs": {"x": "1"}}),
        ("Config", {"resource_type": "broker", "resource_name": "1", "configs": {"x": "2"}}),
        ("Config", {"resource_type": "topic", "resource_name": "a", "configs": {"k": "w"}}),
        change(),
    )
    image, delta = Image().apply_all(records)
    assert (image.cluster_id, image.incarnation_id, image.controller_id, image.controller_epoch) == ("c", "i", 1, 3)
    assert image.brokers[1].state == "ACTIVE"
    assert image.brokers[1].directories == ("d1", "d2")
    assert image.topics["a"].configs == {"k": "w"}
    assert image.topic_by_id(TOPIC) is image.topics["a"]
    partition = image.topics["a"].partitions[0]
    assert (partition.leader, partition.isr, partition.isr_members) == (2, (2,), ((2, 5),))
    assert (partition.elr, partition.elr_members) == ((1,), ((1, 2),))
    assert (image.next_producer_id, image.default_broker_configs, image.broker_configs) == (
        1000,
        {"x": "1"},
        {1: {"x": "2"}},
    )
    assert (image.offset, image.chain_hash) == (12, records[-1].chain_hash)
    assert delta.topics_changed == ("a",)
    assert delta.brokers_changed == (1,)
    assert delta.controller_changed
    assert set(delta.configs_changed) == {("broker", ""), ("broker", "1"), ("topic", "a")}


def test_records_applied_one_by_one_or_all_at_once_give_the_same_image():
    records = chain(CLUSTER, register(), topic(partitions=3), partitions(0, 1), change(1), partitions(2), change(2))
    image = Image()
    for record in records:
        image = image.apply(record)
    assert image == Image().apply_all(records)[0]
    assert [p.leader for p in image.topics["a"].partitions] == [1, 2, 2]


def test_a_topic_is_seen_once_all_its_partitions_are_in():
    records = chain(topic(partitions=3), partitions(0, 1), partitions(2))
    before, delta = Image().apply_all(records[:2])
    assert before.topics == {}
    assert delta.topics_changed == ()
    after, delta = before.apply_all(records[2:])
    assert [p.partition for p in after.topics["a"].partitions] == [0, 1, 2]
    assert delta.topics_changed == ("a",)
    assert after.pending == {}


def test_a_growing_topic_shows_its_old_partitions_as_they_are_until_the_new_ones_are_in():
    records = chain(
        topic(), partitions(0), topic(partitions=3), change(0), partitions(1), change(0, epoch=2), partitions(2)
    )
    halfway = Image().apply_all(records[:5])[0]
    assert [p.leader_epoch for p in halfway.topics["a"].partitions] == [1]
    image = halfway.apply_all(records[5:])[0]
    assert [p.leader_epoch for p in image.topics["a"].partitions] == [2, 0, 0]


@pytest.mark.parametrize("cut", range(6))
def test_a_topic_that_grows_again_before_it_is_complete_keeps_the_new_partitions(cut):
    records = chain(topic(), partitions(0), topic(partitions=3), partitions(1), topic(partitions=4), partitions(2, 3))
    image = Image().apply_all(records[:cut])[0].apply_all(records[cut:])[0]
    assert [p.partition for p in image.topics["a"].partitions] == [0, 1, 2, 3]
    assert image.pending == {}


@pytest.mark.parametrize("cut", range(4))
def test_configs_of_a_topic_that_is_not_complete_yet_are_taken(cut):
    changed = ("Config", {"resource_type": "topic", "resource_name": "a", "configs": {"k": "w"}})
    records = chain(topic(partitions=2, configs={"k": "v"}), partitions(0), changed, partitions(1))
    image = Image().apply_all(records[:cut])[0].apply_all(records[cut:])[0]
    assert image.topics["a"].configs == {"k": "w"}


def test_removed_topic_is_deleted_complete_or_not_and_late_slices_have_no_effect():
    remove = ("RemoveTopic", {"name": "a", "topic_id": str(TOPIC)})
    image, delta = Image().apply_all(chain(topic(), partitions(0), change(0), remove, partitions(0), change(0)))
    assert image.topics == {}
    assert image.topic_names == {}
    assert delta.topics_removed == (("a", TOPIC),)
    assert delta.topics_changed == ()
    image, delta = Image().apply_all(chain(topic(partitions=2), partitions(0), remove, partitions(1)))
    assert image.topics == image.pending == {}
    assert delta.topics_removed == ()


def test_topic_recreated_under_the_same_name_is_another_topic():
    other = uuid.UUID(int=8)
    remove = ("RemoveTopic", {"name": "a", "topic_id": str(TOPIC)})
    records = chain(topic(), partitions(0), remove, topic(topic_id=other), partitions(0, topic_id=other))
    image, delta = Image().apply_all(records)
    assert image.topics["a"].topic_id == other
    assert delta.topics_removed == (("a", TOPIC),)
    assert delta.topics_changed == ("a",)


def test_a_gap_and_another_history_break_the_chain():
    records = chain(CLUSTER, register(), topic())
    image = Image().apply_all(records[:1])[0]
    with pytest.raises(ChainBroken, match="does not follow 1"):
        image.apply(records[2])
    with pytest.raises(ChainBroken, match="another record"):
        image.apply(replace(records[1], previous_hash="other"))
    with pytest.raises(ChainBroken):
        image.apply(records[0])


def test_parts_that_did_not_change_are_the_same_objects():
    contents = [CLUSTER]
    for number in range(100):
        topic_id = uuid.UUID(int=100 + number)
        contents += [topic(f"t{number}", topic_id, 100), partitions(*range(100), topic_id=topic_id)]
    records = chain(*contents)
    image = Image().apply_all(records)[0]
    one_more = chain(change(5, uuid.UUID(int=150)), first=image.offset + 1, previous=image.chain_hash)
    after, delta = image.apply_all(one_more)
    assert delta.topics_changed == ("t50",)
    assert all(after.topics[name] is image.topics[name] for name in image.topics if name != "t50")
    old, new = image.topics["t50"].partitions, after.topics["t50"].partitions
    assert [n for n in range(100) if old[n] is not new[n]] == [5]
    assert after.brokers is image.brokers


def test_a_delta_names_the_partitions_that_changed_and_no_others():
    image, delta = Image().apply_all(chain(topic(partitions=5, configs={}), partitions(*range(5))))
    assert delta.partitions_changed == {"a": (0, 1, 2, 3, 4)}

    def delta_of(*contents):
        return image.apply_all(chain(*contents, first=image.offset + 1, previous=image.chain_hash))[1]

    assert delta_of(change(3), change(1), change(3, epoch=2)).partitions_changed == {"a": (1, 3)}
    config = delta_of(("Config", {"resource_type": "topic", "resource_name": "a", "configs": {"k": "1"}}))
    assert (config.topics_changed, config.partitions_changed) == (("a",), {})
    grown = delta_of(topic(partitions=7), change(2), partitions(5), change(5), partitions(6))
    assert grown.partitions_changed == {"a": (2, 5, 6)}
    remove = ("RemoveTopic", {"name": "a", "topic_id": str(TOPIC)})
    assert delta_of(change(2), remove).partitions_changed == {}
    other = uuid.UUID(int=8)
    made_anew = delta_of(change(4), remove, topic(topic_id=other), partitions(0, topic_id=other))
    assert made_anew.partitions_changed == {"a": (0,)}
    assert image.apply_all([write_snapshot(image)])[1].partitions_changed == {"a": (0, 1, 2, 3, 4)}


def test_a_reassignment_shows_until_it_is_complete():
    under_way = change(replicas="2,3,1", adding="3", removing="1")
    image = Image().apply_all(chain(topic(configs={}), partitions(0), under_way))[0]
    partition = image.topics["a"].partitions[0]
    assert partition.replicas == (2, 3, 1)
    assert (partition.adding_replicas, partition.removing_replicas) == ((3,), (1,))
    assert read_snapshot(write_snapshot(image)) == image
    done = chain(change(epoch=2, replicas="2,3", adding="", removing=""), first=4, previous=image.chain_hash)
    partition = image.apply_all(done)[0].topics["a"].partitions[0]
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((2, 3), (), ())


def test_changes_and_snapshots_from_before_there_were_reassignments_are_read():
    image = Image().apply_all(chain(topic(configs={}), partitions(0), change()))[0]
    partition = image.topics["a"].partitions[0]
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((1, 2), (), ())
    written = write_snapshot(image)
    (held,) = written.payload["topics"][0]["partitions"]
    assert not {"adding", "removing"} & set(held)
    assert read_snapshot(written) == image


def test_a_registration_without_a_directory_of_before_is_remembered_over_later_ones():
    def emptied_epoch(*registrations):
        image = Image().apply_all(chain(*registrations))[0]
        assert Image().apply(write_snapshot(image)).brokers == image.brokers
        return image.brokers[1].emptied_epoch

    assert emptied_epoch(register(epoch=1), register(epoch=2)) == 0
    assert emptied_epoch(register(epoch=1), register(epoch=2, directories="other")) == 2
    assert (
        emptied_epoch(register(epoch=1), register(epoch=2, directories="other"), register(epoch=3, directories="other"))
        == 2
    )


def unregister(node_id, epoch):
    return "UnregisterBroker", {"node_id": node_id, "broker_epoch": epoch}


@pytest.mark.parametrize(("directories", "is_emptied"), [("d1,d2", False), ("other", True)])
@pytest.mark.parametrize("knows_former", [True, False])
def test_registration_of_an_unregistered_broker_without_a_directory_of_before_is_emptied(
    directories, is_emptied, knows_former
):
    image = Image().apply_all(chain(register(epoch=1), unregister(1, 1)))[0]
    # a snapshot of an older YAK has no former brokers
    image = image if knows_former else replace(image, former={})
    back = register(epoch=3, directories=directories, lossy=True)
    (record,) = chain(back, first=3, previous=image.chain_hash)
    assert image.apply(record).brokers[1].emptied_epoch == (3 if is_emptied or not knows_former else 0)


def test_replaced_broker_with_an_empty_disk_does_not_lead_after_all_machines_lost_power():
    def active(node_id, epoch):
        return "BrokerChange", {"node_id": node_id, "broker_epoch": epoch, "state": "ACTIVE"}

    image = Image().apply_all(
        chain(
            CLUSTER,
            register(1, 2),
            register(2, 3),
            topic(),
            partitions(0),
            change(isr="1@2,2@3", elr="", leader=-1),
            # node 1 is another machine now; node 2 has its disk, without what was not synced
            unregister(1, 2),
            register(1, 8, directories="other", lossy=True),
            register(2, 9, lossy=True),
            active(1, 8),
            active(2, 9),
        )
    )[0]
    (election,) = needed_elections(image)
    assert (election.leader, election.unclean) == (2, True)


def test_a_lossy_registration_is_remembered_over_later_ones():
    def lossy_epoch(*registrations):
        return Image().apply_all(chain(*registrations))[0].brokers[1].lossy_epoch

    assert lossy_epoch(register(epoch=1)) == 0
    assert lossy_epoch(register(epoch=1), register(epoch=2, lossy=True)) == 2
    assert lossy_epoch(register(epoch=1, lossy=True), register(epoch=2)) == 1
    image = Image().apply_all(chain(register(epoch=1, lossy=True)))[0]
    assert read_snapshot(write_snapshot(image)) == image


@pytest.mark.parametrize(
    ("kind", "payload", "words"),
    [
        ("Nonsense", {}, "does not know the kind"),
        ("Cluster", {"version": 2}, "newer"),
        ("Cluster", {"version": "x"}, "version"),
        ("Cluster", {"cluster_id": 5}, "cluster_id"),
        ("Topic", {"name": "a", "topic_id": "x", "partitions": 1}, "topic_id is not a UUID"),
        ("Topic", {"name": "a", "topic_id": str(TOPIC), "partitions": 0}, "partitions"),
        ("Topic", {"name": "a", "topic_id": str(TOPIC), "partitions": 1, "configs": {"a": 1}}, "map of strings"),
        ("Partition", {"topic_id": str(TOPIC), "partitions": 3}, "not a list"),
        ("Partition", {"topic_id": str(TOPIC), "partitions": [5]}, "not a JSON object"),
        ("BrokerChange", {"node_id": 1, "broker_epoch": 1, "state": "ASLEEP"}, "ASLEEP"),
        ("PartitionChange", {"changes": [{"topic_id": str(TOPIC), "partition": 0, "isr": "1"}]}, "isr"),
        ("PartitionChange", {"changes": [BROKEN_CHANGE | {"replicas": "x"}]}, "replicas"),
        ("PartitionChange", {"changes": [BROKEN_CHANGE | {"adding": 5}]}, "adding"),
        ("ProducerIds", {"node_id": True, "first": 0, "next": 0}, "node_id"),
    ],
)
def test_a_record_that_cannot_be_read_says_which_and_why(kind, payload, words):
    record = TailedRecord(1, "h", kind, 0, {"version": 0} | payload, "")
    with pytest.raises(BadRecord, match=words):
        Image().apply(record)


def test_empty_lists_as_cjson_writes_them_are_read():
    image = Image().apply_all(chain(("PartitionChange", {"changes": {}})))[0]
    assert image.offset == 1


def test_snapshot_replaces_everything_and_its_delta_lists_what_was_removed():
    old = Image().apply_all(
        chain(CLUSTER, register(), topic("gone", uuid.UUID(int=9)), partitions(0, topic_id=uuid.UUID(int=9)))
    )[0]
    new = Image().apply_all(
        chain(CLUSTER, register(), topic(), partitions(0), topic("p", uuid.UUID(int=3), 2), change(0))
    )[0]
    image, delta = old.apply_all([write_snapshot(new)])
    assert image == new
    assert delta.topics_removed == (("gone", uuid.UUID(int=9)),)
    assert delta.topics_changed == ("a",)
    assert read_snapshot(write_snapshot(new)) == new


actions = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from("abc"), st.integers(1, 5)),
        st.tuples(st.just("grow"), st.sampled_from("abc"), st.integers(1, 8)),
        st.tuples(st.just("begin to create"), st.sampled_from("abc"), st.integers(2, 5)),
        st.tuples(st.just("begin to grow"), st.sampled_from("abc"), st.integers(2, 8)),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("config"), st.sampled_from("abc"), st.integers(0, 2)),
        st.tuples(st.just("pids"), st.just(""), st.just(0)),
    ),
    max_size=20,
)


@settings(max_examples=40)
@given(actions, st.integers(0, 60))
def test_the_image_holds_what_the_store_holds_whatever_was_done(steps, cut):
    from yak.sim.store import SimStore

    store = SimStore()
    who = {"cluster_id": "", "incarnation_id": "", "node_id": 1, "broker_epoch": 0, "controller_epoch": 0}

    def call(script, **arguments):
        return store.call(StoreRequest(script, who | arguments), 1000)

    call("bootstrap", new_cluster_id="c", new_incarnation_id="i")
    boot = {"boot_id": "b", "directories": "d", "host": "h", "port": 1, "rack": None, "role": "", "lossy": False}
    who["broker_epoch"] = call("register", **boot).value["broker_epoch"]
    who["controller_epoch"] = call("acquire_lease").value["controller_epoch"]
    call("unfence", target_id=1, target_epoch=who["broker_epoch"])
    for number, (action, name, count) in enumerate(steps):
        topic_id = store.state.topic_ids.get(name, str(uuid.UUID(int=number + 1)))
        items = [{"partition": n, "replicas": "1"} for n in range(count)]
        if action.startswith("begin"):
            items = items[count // 2 : count - 1]
        if action.endswith("create"):
            call("create_topic", name=name, topic_id=topic_id, total=count, configs={}, partitions=items)
        elif action.endswith("grow"):
            call("create_partitions", topic_id=topic_id, total=count, partitions=items)
        elif action == "delete":
            call("delete_topic", topic_id=topic_id)
        elif action == "config":
            names = {"resource_type": "topic", "resource_name": name, "replace": False}
            call("alter_configs", **names, changes=[["k", str(count)]])
        else:
            call("alloc_pid")
    records = store.records_after(0, 10_000)
    middle = Image().apply_all(records[:cut])[0]
    image = read_snapshot(write_snapshot(middle)).apply_all(records[cut:])[0]
    assert image == Image().apply_all(records)[0]
    whole = {t["name"]: t["made"] for t in store.state.topics.values() if t["made"] >= t["total"]}
    assert {name: len(t.partitions) for name, t in image.topics.items() if name in whole} == whole
    # a topic that grows keeps its old partitions
    assert set(image.topics) == {t["name"] for t in store.state.topics.values() if t["complete"]}
    assert {name: t.configs for name, t in image.topics.items()} == {
        name: store.state.configs.get(f"topic:{name}", {}) for name in image.topics
    }
    assert image.next_producer_id == store.state.cluster["next_pid"]


# ------------------------------------------------------------------------------------------- old external brokers


def test_old_records_and_snapshots_of_external_brokers_change_nothing():
    guest = {"version": 1, "guest": True, "node_id": 9, "broker_epoch": 1, "boot_id": "u", "host": "h", "port": 9092}
    guest |= {"rack": None, "security_protocol": "SSL"}
    contents = (CLUSTER, register(), ("RegisterBroker", guest), ("BrokerChange", guest | {"state": "CLOSED"}))
    image, delta = Image().apply_all(chain(*contents))
    assert (image.offset, list(image.brokers), delta.brokers_changed) == (4, [1], (1,))
    record = write_snapshot(image)
    old = record.payload | {"version": 1, "guests": [guest | {"state": "ACTIVE", "changed_ms": 5}]}
    assert read_snapshot(replace(record, payload=old)) == image


def test_snapshot_keeps_former_brokers_and_all_times():
    remove = ("RemoveTopic", {"name": "b", "topic_id": str(uuid.UUID(int=8))})
    contents = (
        CLUSTER,
        register(),
        register(2, 3),
        topic(),
        partitions(0),
        topic("b", uuid.UUID(int=8)),
        remove,
    )
    unregister = ("UnregisterBroker", {"node_id": 2, "broker_epoch": 3})
    producers = ("ProducerIds", {"node_id": 1, "broker_epoch": 2, "first": 0, "next": 1000})
    image = Image().apply_all(chain(*contents, unregister, producers, change()))[0]
    assert (image.former[2].state, image.former[2].host, image.former[2].changed_ms) == ("CLOSED", "h", 1_008)
    again = read_snapshot(write_snapshot(image))
    assert again == image
    assert again.incarnation_ms == image.incarnation_ms == 1_001
    assert again.brokers[1].changed_ms == 1_002
    assert again.topics["a"].changed_ms == 1_005
    assert again.topics["a"].partitions[0].changed_ms == 1_010
    assert again.removed_topics[uuid.UUID(int=8)].name == "b"
    assert again.removed_topics[uuid.UUID(int=8)].changed_ms == 1_007
    assert again.producer_blocks[1].changed_ms == 1_009


def test_snapshot_of_an_older_yak_dates_changes_at_the_latest_possible_time():
    image = Image().apply_all(chain(CLUSTER, register(), topic(), partitions(0)))[0]
    record = write_snapshot(image)
    new = ("incarnation_ms", "removals", "former", "producer_blocks")
    payload = {name: value for name, value in record.payload.items() if name not in new}
    for broker in payload["brokers"]:
        del broker["changed_ms"]
    for each in payload["topics"]:
        del each["changed_ms"], each["partitions"][0]["changed_ms"]
    payload["removed_topics"] = str(uuid.UUID(int=5))
    old = read_snapshot(replace(record, payload=payload))
    assert old.brokers[1].changed_ms == old.topics["a"].changed_ms == old.topics["a"].partitions[0].changed_ms == 1_004
    assert old.removed_topics[uuid.UUID(int=5)].changed_ms == 1_004
