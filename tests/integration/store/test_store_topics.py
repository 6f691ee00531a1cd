import uuid

from support.stores import Caller, brokers, kinds, topic_id_of


def test_a_created_topic_has_its_leader_and_isr(one):
    assert one.create("a", replicas=["1", "1"], configs={"retention.ms": "1000"}).value == {"created": True}
    topic = one.catch_up().image.topics["a"]
    assert topic.configs == {"retention.ms": "1000"}
    assert [p.leader for p in topic.partitions] == [1, 1]
    assert [member.broker_epoch for member in topic.partitions[0].isr_members] == [one.who["broker_epoch"]]
    assert (topic.partitions[0].leader_epoch, topic.partitions[0].partition_epoch) == (0, 0)


def test_creating_with_the_same_id_is_a_repeat_and_with_another_is_refused(one, backend):
    one.create("a")
    before = kinds(backend)
    assert one.create("a").value == {"created": False}
    assert one.create("a", topic_id=str(uuid.UUID(int=5))).code == "TOPIC_EXISTS"
    assert kinds(backend) == before


def test_replicas_must_be_registered_and_one_of_them_active(backend):
    one = Caller(backend).join()
    Caller(backend, 2).join(active=False)
    assert one.create("a", replicas=["7"]).code == "INELIGIBLE_BROKER"
    assert one.create("a", replicas=["2"]).code == "INELIGIBLE_BROKER"
    assert one.create("a", replicas=["2,1"]).code == "OK"
    partition = one.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1,), 1)


def test_slices_have_bounds(one):
    assert one.create("a", replicas=["1"] * 201).code == "BAD_REQUEST"
    assert one.create("a", partitions=[]).code == "BAD_REQUEST"
    assert one.create("a", partitions=[{"partition": 3, "replicas": "1"}]).code == "BAD_REQUEST"


def test_a_topic_of_several_slices_is_seen_when_all_are_in(one):
    topic_id = str(uuid.uuid5(uuid.NAMESPACE_DNS, "a"))
    items = [{"partition": n, "replicas": "1"} for n in range(450)]
    assert one.create("a", total=450, partitions=items[:200]).code == "OK"
    assert "a" not in one.catch_up().image.topics
    for start in (200, 400):
        part = items[start : start + 200]
        assert one("create_partitions", topic_id=topic_id, total=450, partitions=part).code == "OK"
    assert len(one.catch_up().image.topics["a"].partitions) == 450


def test_a_half_made_topic_of_a_dead_creator_makes_way(one, backend):
    one.create("a", total=2)
    assert one.create("a", topic_id=str(uuid.UUID(int=5))).code == "TOPIC_EXISTS"
    one.register("boot-2")
    one.take_office()
    one.unfence(one)
    assert one.create("a", topic_id=str(uuid.UUID(int=5))).code == "OK"
    assert one.catch_up().image.topics["a"].topic_id == uuid.UUID(int=5)
    assert kinds(backend)[-3:] == ["RemoveTopic", "Topic", "Partition"]


def test_growing_a_topic_adds_partitions_once(one, backend):
    one.create("a")
    topic_id = topic_id_of("a")
    more = {"topic_id": topic_id, "total": 3, "partitions": [{"partition": n, "replicas": "1"} for n in (1, 2)]}
    assert one("create_partitions", **more).code == "OK"
    before = kinds(backend)
    assert one("create_partitions", **more).code == "OK"
    assert kinds(backend) == before
    assert len(one.catch_up().image.topics["a"].partitions) == 3
    assert one("create_partitions", **(more | {"total": 2})).code == "INVALID_PARTITIONS"
    assert one("create_partitions", **(more | {"topic_id": "none"})).code == "NO_TOPIC"


def test_deleted_topic_is_removed_and_its_name_is_free(one):
    one.create("a", configs={"retention.ms": "1"})
    topic_id = topic_id_of("a")
    assert one("delete_topic", topic_id=topic_id).value == {"removed": True}
    assert one("delete_topic", topic_id=topic_id).value == {"removed": False}
    assert one.catch_up().image.topics == {}
    assert one.create("a", topic_id=str(uuid.UUID(int=5))).code == "OK"
    assert one.catch_up().image.topics["a"].configs == {}


def half_grown(one: Caller, other: Caller) -> dict:
    """Topic `a` of one partition, of which `other` wanted to make four and made two."""
    one.create("a")
    more = {"topic_id": topic_id_of("a"), "total": 4}
    part = [{"partition": 2, "replicas": "1"}]
    assert other("create_partitions", **more, partitions=part).code == "OK"
    return more


def test_partially_created_topic_of_a_live_creator_is_removed_when_it_is_overdue(backend):
    one, other = brokers(backend, 2)
    assert other.create("a", total=2).code == "OK"
    assert one("undo_half_made", topic_id=topic_id_of("a"), is_overdue=False).value == {"removed": False}
    assert one("undo_half_made", topic_id=topic_id_of("a"), is_overdue=True).value == {"removed": True}


def test_partially_created_topic_of_a_dead_creator_is_removed(backend):
    one, other = brokers(backend, 2)
    assert other.create("a", total=2).code == "OK"
    undo = {"topic_id": topic_id_of("a")}
    # Its creator may still be at it.
    assert one("undo_half_made", **undo).value == {"removed": False}
    assert other("undo_half_made", **undo).code == "FENCED_CONTROLLER"
    one.fence(other)
    assert one("undo_half_made", **undo).value == {"removed": True}
    assert one("undo_half_made", **undo).value == {"removed": False}
    assert one.catch_up().image.pending == {}
    assert kinds(backend).count("RemoveTopic") == 1
    # Should the creator be alive: what it still sends finds nothing, and when it is back it begins anew with the same id.
    rest = [{"partition": 1, "replicas": "1"}]
    assert other("create_partitions", topic_id=topic_id_of("a"), total=2, partitions=rest).code == "NO_TOPIC"
    other.register("boot-2")
    assert other.create("a", total=2).value == {"created": True}
    assert other("create_partitions", topic_id=topic_id_of("a"), total=2, partitions=rest).code == "OK"
    assert len(one.catch_up().image.topics["a"].partitions) == 2


def test_a_creation_that_arrives_again_brings_back_no_deleted_topic(backend):
    one, other = brokers(backend, 2)
    assert other.create("a").value == {"created": True}
    assert one("delete_topic", topic_id=topic_id_of("a")).code == "OK"
    assert other.create("a").code == "NO_TOPIC"
    assert "a" not in one.catch_up().image.topics
    other.register("boot-2")
    assert other.create("a").value == {"created": True}


def test_a_complete_or_unknown_topic_is_not_undone(one):
    one.create("a")
    assert one("undo_half_made", topic_id=topic_id_of("a")).value == {"removed": False}
    assert one("undo_half_made", topic_id=topic_id_of("b")).value == {"removed": False}
    assert "a" in one.catch_up().image.topics


def test_partition_growth_that_stopped_half_way_is_reported_and_can_be_finished(backend):
    one, other = brokers(backend, 2)
    more = half_grown(one, other)
    other.register("boot-2")
    told = one("undo_half_made", topic_id=topic_id_of("a"))
    assert told.value == {"removed": False, "missing": [1, 3], "total": 4}
    items = [{"partition": number, "replicas": "1"} for number in told.value["missing"]]
    assert one("create_partitions", **more, partitions=items).code == "OK"
    assert len(one.catch_up().image.topics["a"].partitions) == 4
    assert one("undo_half_made", topic_id=topic_id_of("a")).value == {"removed": False}


def test_a_topic_that_was_whole_once_is_never_taken_for_half_made(backend):
    one, other = brokers(backend, 2)
    other.create("a")
    one("create_partitions", topic_id=topic_id_of("a"), total=3, partitions=[{"partition": 2, "replicas": "1"}])
    other.register("boot-2")
    assert one.create("a", topic_id=str(uuid.UUID(int=5))).code == "TOPIC_EXISTS"
    assert "RemoveTopic" not in kinds(backend)


def test_topic_whose_name_collides_is_refused_if_the_call_requests_it(one, backend):
    assert one.create("a.b_c").code == "OK"
    before = kinds(backend)
    refused = one.create("a_b.c", refuses_collision=True)
    assert refused.code == "TOPIC_COLLIDES"
    assert refused.value == {"message": "Topic 'a_b.c' collides with existing topic: a.b_c"}
    assert one.create("a.b_c", refuses_collision=True).value == {"created": False}, "a repeat"
    assert kinds(backend) == before
    for name in ("ab", "a.b", "b_c", "xa.b_c", "a.b_cx", "a-b_c"):
        assert one.create(name, refuses_collision=True).code == "OK", name
    assert one("delete_topic", topic_id=topic_id_of("a.b_c")).code == "OK"
    assert one.create("a_b.c", refuses_collision=True).code == "OK"
    assert one.create("a_b_c").code == "OK", "a call of an earlier version has the record that it had then"


def test_second_growth_to_the_same_total_is_refused_and_a_repeat_is_not(one, backend):
    one.create("a")
    more = {"topic_id": topic_id_of("a"), "total": 3, "partitions": [{"partition": n, "replicas": "1"} for n in (1, 2)]}
    assert one("create_partitions", **more, growth_id="g1").code == "OK"
    before = kinds(backend)
    assert one("create_partitions", **more, growth_id="g1").code == "OK"
    refused = one("create_partitions", **more, growth_id="g2")
    assert (refused.code, refused.value) == ("INVALID_PARTITIONS", {"message": "Topic already has 3 partitions."})
    assert kinds(backend) == before
    more = {"topic_id": topic_id_of("a"), "total": 5}
    for number in (3, 4):
        item = [{"partition": number, "replicas": "1"}]
        assert one("create_partitions", **more, partitions=item, growth_id="g2").code == "OK"
    assert len(one.catch_up().image.topics["a"].partitions) == 5
    assert one("create_partitions", **more, partitions=item).code == "OK", (
        "a controller completes a growth without its id"
    )
