"""What clients with and without ACLs get from the APIs that do more than allow or refuse."""

import datetime as dt
import uuid

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.acl_rig import ADMIN, AclRig, error_codes, transactional_batch
from tests.unit.broker.groups_rig import subscription
from tests.unit.broker.requests import alter
from tests.unit.noted_calls import note_calls
from yak.acls.bindings import Operation, ResourceType
from yak.groups.offsets import OFFSETS_TOPIC
from yak.protocol.peer_proof import Incarnation
from yak.security import ANONYMOUS
from yak.sim.request_fields import create_fields, fetch_fields, produce_fields
from yak.sim.wire import record_batch

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE, CREATE, DELETE = (
    Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE, Operation.DELETE)  # fmt: skip
NONE, DENIED = ErrorCode.none, ErrorCode.topic_authorization_failed


@pytest.fixture
def rig():
    rig = AclRig()
    rig.create_topic("mine")
    rig.create_topic("theirs")
    return rig


def metadata(rig, client, names, version=12, **more):
    topics = None if names is None else [{"name": name} for name in names]
    answer = rig.ask_filled(3, version, {"topics": topics, "allow_auto_topic_creation": True} | more, client)
    return {topic.name: topic.error_code for topic in answer.topics}, answer


# ---------------------------------------------------------------------------------------------------------- Metadata


def test_metadata_of_all_topics_leaves_out_what_may_not_be_described(rig):
    rig.acl(DESCRIBE, TOPIC, "mine")
    assert metadata(rig, rig.user("ann"), None)[0] == {"mine": NONE}
    assert rig.audit()[-1]["api"] == "CreateAcls", "no denial is logged"


def test_metadata_by_name_says_which_topic_is_denied_whether_it_exists_or_not(rig):
    rig.acl(READ, TOPIC, "mine")
    found, answer = metadata(rig, rig.user("ann"), ["mine", "theirs", "absent"])
    assert found == {"mine": NONE, "theirs": DENIED, "absent": DENIED}
    assert answer.topics[1].topic_id is None
    assert "absent" not in rig.broker.image.topics


def test_metadata_by_id_of_a_denied_topic_has_no_name(rig):
    topic_id = rig.broker.image.topics["theirs"].topic_id
    answer = rig.ask_filled(3, 12, {"topics": [{"name": None, "topic_id": topic_id}]}, rig.user("ann"))
    assert [(topic.error_code, topic.name) for topic in answer.topics] == [(DENIED, None)]


@pytest.mark.parametrize("kind", [TOPIC, CLUSTER])
def test_metadata_creates_a_topic_only_with_the_right_to(rig, kind):
    rig.acl(DESCRIBE, TOPIC, "new", prefixed=True)
    assert metadata(rig, rig.user("ann"), ["new"])[0] == {"new": DENIED}
    assert "new" not in rig.broker.image.topics
    rig.acl(CREATE, kind, "new")
    metadata(rig, rig.user("ann"), ["new"])
    assert "new" in rig.broker.image.topics


def test_metadata_has_the_operations_that_the_client_may_do(rig):
    rig.acl(READ, TOPIC, "mine")
    asked = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    answer = metadata(rig, rig.user("ann"), ["mine"], version=9, **asked)[1]
    assert answer.topics[0].topic_authorized_operations == 1 << READ | 1 << DESCRIBE
    assert answer.cluster_authorized_operations == 0
    rig.acl(DESCRIBE, CLUSTER)
    answer = metadata(rig, rig.user("ann"), ["mine"], version=9, **asked)[1]
    assert answer.cluster_authorized_operations == 1 << DESCRIBE


def test_pages_of_topics_leave_out_what_may_not_be_described(rig):
    rig.acl(DESCRIBE, TOPIC, "theirs")
    answer = rig.ask_filled(75, 0, {"response_partition_limit": 10}, rig.user("ann"))
    assert [topic.name for topic in answer.topics] == ["theirs"]
    asked = {"response_partition_limit": 1, "topics": [{"name": "mine"}, {"name": "theirs"}]}
    answer = rig.ask_filled(75, 0, asked, rig.user("ann"))
    assert {topic.name: topic.error_code for topic in answer.topics} == {"mine": DENIED, "theirs": NONE}


def test_cursor_of_a_full_page_names_no_topic_that_may_not_be_described(rig):
    """DescribeTopicPartitionsRequestHandler leaves such topics out before it pages."""
    rig.create_topic("zebra")
    rig.acl(DESCRIBE, TOPIC, "mine")
    answer = rig.ask_filled(75, 0, {"response_partition_limit": 1}, rig.user("ann"))
    assert ([topic.name for topic in answer.topics], answer.next_cursor) == (["mine"], None)
    rig.acl(DESCRIBE, TOPIC, "zebra")
    answer = rig.ask_filled(75, 0, {"response_partition_limit": 1}, rig.user("ann"))
    assert answer.next_cursor.topic_name == "zebra", "theirs is between them"


# ---------------------------------------------------------------------------------------------------- Produce, Fetch


def produce(rig, client, topic, **more):
    records = record_batch([b"v"], rig.world.now_ms)
    answer = rig.ask_filled(0, 9, produce_fields(topic, records) | more, client)
    return answer.responses[0].partition_responses[0].error_code


def test_produce_to_a_denied_topic_appends_nothing(rig):
    rig.acl(WRITE, TOPIC, "mine")
    ann = rig.user("ann")
    assert produce(rig, ann, "mine") == NONE
    assert produce(rig, ann, "theirs") == DENIED
    assert produce(rig, ann, "absent") == DENIED
    assert rig.fetch("theirs", 0).high_watermark == 0


def test_produce_without_acks_to_a_denied_topic_closes_the_connection(rig):
    ann = rig.user("ann")
    records = record_batch([b"v"], rig.world.now_ms)
    assert rig.ask_filled(0, 9, produce_fields("mine", records, acks=0), ann) is None
    assert rig.fetch("mine", 0).high_watermark == 0


def test_transactional_batch_needs_the_right_to_its_transactional_id(rig):
    """KafkaApis.handleProduceRequest: a batch outside of transactions needs none, whatever id the request names."""
    rig.acl(WRITE, TOPIC, "mine")
    ann = rig.user("ann")
    assert produce(rig, ann, "mine", transactional_id="pay") == NONE
    topics = produce_fields("mine", transactional_batch([b"v"]))
    code = produce(rig, ann, "mine", **topics | {"transactional_id": "pay"})
    assert code == ErrorCode.transactional_id_authorization_failed
    assert rig.audit()[-1]["resources"] == "WRITE TRANSACTIONAL_ID pay"
    assert rig.fetch("mine", 0).high_watermark == 1


def test_denied_transactional_id_is_the_error_of_all_topics_of_a_produce(rig):
    """Kafka refuses the request as a whole, before it looks at topics. The answer has nothing of a denied one."""
    rig.acl(WRITE, TOPIC, "mine")
    batch = transactional_batch([b"v"])
    topics = [
        {"name": name, "partition_data": [{"index": 0, "records": batch}]} for name in ("mine", "theirs", "absent")
    ]
    fields = {"acks": -1, "transactional_id": "pay", "topic_data": topics}
    answer = rig.ask_filled(0, 9, fields, rig.user("ann"))
    found = [
        (each.partition_responses[0].error_code, each.partition_responses[0].log_start_offset)
        for each in answer.responses
    ]
    assert found == [(ErrorCode.transactional_id_authorization_failed, -1)] * 3


def test_acl_of_a_host_counts_for_its_connections_only(rig):
    rig.acl(WRITE, TOPIC, "mine", host="10.0.0.7")
    assert produce(rig, rig.user("ann", "10.0.0.7"), "mine") == NONE
    assert produce(rig, rig.user("ann", "10.0.0.8"), "mine") == DENIED


def fetch(rig, client, positions, version=12, **session):
    fields = fetch_fields("mine", 0)
    (partition,) = fields["topics"][0]["partitions"]
    name = "topic" if version < 13 else "topic_id"
    topics = [{name: topic, "partitions": [partition | {"fetch_offset": at}]} for topic, at in positions.items()]
    answer = rig.ask_filled(1, version, fields | {"topics": topics, "max_wait": fields["max_wait"]} | session, client)
    found = {
        getattr(each, name): (each.partitions[0].error_code, bool(each.partitions[0].records))
        for each in answer.responses
    }
    return answer, found


@pytest.mark.parametrize("version", [12, 16])
def test_fetch_of_several_topics_gives_records_of_the_allowed_ones(rig, version):
    for topic in ("mine", "theirs"):
        rig.produce(topic, [b"v"])
    rig.acl(READ, TOPIC, "mine")
    topics = rig.broker.image.topics
    mine, theirs = (name if version < 13 else topics[name].topic_id for name in ("mine", "theirs"))
    for _ in range(3):  # the partition that is read first rotates
        found = fetch(rig, rig.user("ann"), {mine: 0, theirs: 0}, version)[1]
        assert found == {mine: (NONE, True), theirs: (DENIED, False)}


def test_fetch_session_loses_a_topic_when_its_acl_is_deleted(rig):
    rig.produce("mine", [b"v"])
    rig.acl(READ, TOPIC, "mine")
    ann = rig.user("ann")
    answer, found = fetch(rig, ann, {"mine": 1}, session_epoch=0)
    assert found == {"mine": (NONE, False)}
    assert answer.session_id
    rig.ask(31, 3, filters=[{"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
            "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}])  # fmt: skip
    rig.produce("mine", [b"w"])
    found = fetch(rig, ann, {}, session_id=answer.session_id, session_epoch=1)[1]
    assert found == {"mine": (DENIED, False)}


def test_topic_id_that_the_session_learns_later_is_checked_too(rig):
    rig.acl(READ, TOPIC, "other")
    topic_id = rig.broker.image.topics["theirs"].topic_id
    rig.produce("theirs", [b"v"])
    assert fetch(rig, rig.user("ann"), {topic_id: 0}, 16)[1] == {topic_id: (DENIED, False)}


# ------------------------------------------------------------------------------------------------- groups and offsets


def commit(rig, client, topic, group="g"):
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    answer = rig.ask_filled(8, 8, {"group_id": group, "topics": topics}, client)
    return answer.topics[0].partitions[0].error_code


@pytest.fixture
def grouped(rig):
    rig.ask(10, 3, key="g")
    rig.run_for(2_000)
    assert commit(rig, rig.client, "theirs") == commit(rig, rig.client, "mine") == NONE
    return rig


def fetched_offsets(rig, client, topics, version=8):
    asked = None if topics is None else [{"name": name, "partition_indexes": [0]} for name in topics]
    (group,) = rig.ask_filled(9, version, {"groups": [{"group_id": "g", "topics": asked}]}, client).groups
    return group.error_code, {
        topic.name: (topic.partitions[0].error_code, topic.partitions[0].committed_offset) for topic in group.topics
    }


def test_committed_offsets_of_denied_topics_are_hidden(grouped):
    grouped.acl(READ, GROUP, "g")
    grouped.acl(READ, TOPIC, "mine")
    ann = grouped.user("ann")
    assert commit(grouped, ann, "theirs") == DENIED
    assert commit(grouped, ann, "mine") == NONE
    found = {"mine": (NONE, 5), "theirs": (DENIED, -1)}
    assert fetched_offsets(grouped, ann, ["mine", "theirs"]) == (NONE, found)
    assert fetched_offsets(grouped, ann, None) == (NONE, {"mine": (NONE, 5)})


def test_offset_fetch_v1_of_a_denied_group_has_the_groups_error_for_each_topic(grouped):
    """v1 has no error for the whole answer (OffsetFetchResponse.groupError)."""
    grouped.acl(READ, TOPIC, "mine")
    topics = [{"name": name, "partition_indexes": [0]} for name in ("mine", "theirs")]
    answer = grouped.ask_filled(9, 1, {"group_id": "g", "topics": topics}, grouped.user("ann"))
    found = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert found == dict.fromkeys(("mine", "theirs"), ErrorCode.group_authorization_failed)


def test_groups_that_may_not_be_described_are_not_listed(grouped):
    assert commit(grouped, grouped.client, "mine", "other") == NONE
    grouped.acl(DESCRIBE, GROUP, "other")

    def listed(user):
        return sorted(group.group_id for group in grouped.ask_filled(16, 4, {}, grouped.user(user)).groups)

    assert listed("ann") == ["other"]
    assert listed("bob") == []
    grouped.acl(DESCRIBE, CLUSTER, user="bob")
    assert listed("bob") == ["g", "other"]


def test_denied_find_coordinator_creates_no_internal_topic(rig):
    ann = rig.user("ann")
    answer = rig.ask_filled(10, 4, {"coordinator_keys": ["a", "b"]}, ann)
    assert error_codes(answer) == {ErrorCode.group_authorization_failed}
    assert OFFSETS_TOPIC not in rig.broker.image.topics
    rig.acl(READ, GROUP, "b")
    rig.ask_filled(10, 4, {"coordinator_keys": ["a", "b"]}, ann)
    rig.run_for(2_000)
    answer = rig.ask_filled(10, 4, {"coordinator_keys": ["a", "b"]}, ann)
    assert [each.error_code for each in answer.coordinators] == [ErrorCode.group_authorization_failed, NONE]


def heartbeat(rig, client, member, **more):
    given = {"group_id": "c", "member_id": member, "rebalance_timeout": dt.timedelta(minutes=1), "topic_partitions": []}
    return rig.ask_filled(68, 1, given | more, client)


def test_regular_expression_of_a_member_matches_what_it_may_describe(grouped):
    grouped.acl(READ, GROUP, "c")
    grouped.acl(READ, TOPIC, "mine")
    ann = grouped.user("ann")
    assert heartbeat(grouped, ann, "m", subscribed_topic_names=["theirs"]).error_code == DENIED
    answer = heartbeat(grouped, ann, "m", subscribed_topic_regex=".*")
    assigned = [part.topic_id for part in answer.assignment.topic_partitions]
    assert assigned == [grouped.broker.image.topics["mine"].topic_id]


def test_classic_member_that_joins_widens_no_regular_expression_of_others(grouped):
    grouped.acl(READ, GROUP, "c")
    grouped.acl(READ, TOPIC, "mine")
    ann = grouped.user("ann")
    epoch = heartbeat(grouped, ann, "m", subscribed_topic_regex=".*").member_epoch
    grouped.run_for(11_000)  # resolved again after ten seconds, when topics changed
    grouped.create_topic("later")
    join = {
        "group_id": "c", "member_id": "", "group_instance_id": "i", "protocol_type": "consumer",
        "session_timeout": dt.timedelta(seconds=10), "rebalance_timeout": dt.timedelta(seconds=10),
        "protocols": [{"name": "range", "metadata": subscription("mine")}],
    }  # fmt: skip
    assert grouped.ask_filled(11, 5, join, ann).error_code == NONE
    told = heartbeat(grouped, ann, "m", member_epoch=epoch, subscribed_topic_regex=".*")
    mine = grouped.broker.image.topics["mine"].topic_id
    assert {part.topic_id for part in told.assignment.topic_partitions} <= {mine}


def test_description_of_a_group_needs_the_right_to_describe_its_topics(grouped):
    heartbeat(grouped, grouped.client, "m", subscribed_topic_names=["mine"])
    grouped.acl(DESCRIBE, GROUP, "c")
    (group,) = grouped.ask_filled(69, 1, {"group_ids": ["c"]}, grouped.user("ann")).groups
    assert (group.error_code, group.members) == (DENIED, ())
    grouped.acl(DESCRIBE, TOPIC, "mine")
    (group,) = grouped.ask_filled(69, 1, {"group_ids": ["c"]}, grouped.user("ann")).groups
    assert (group.error_code, len(group.members)) == (NONE, 1)


# ------------------------------------------------------------------------------------------------------------- topics


def test_created_topic_shows_configs_only_to_a_client_that_may_describe_them(rig):
    rig.acl(CREATE, TOPIC, "new", prefixed=True)
    answer = rig.ask_filled(19, 7, create_fields("new1", {}), rig.user("ann")).topics[0]
    assert (answer.error_code, answer.topic_config_error_code, answer.num_partitions) == (NONE, DENIED, -1)
    rig.acl(Operation.DESCRIBE_CONFIGS, TOPIC, "new", prefixed=True)
    answer = rig.ask_filled(19, 7, create_fields("new2", {}), rig.user("ann")).topics[0]
    assert answer.topic_config_error_code == NONE
    assert answer.configs
    assert rig.ask_filled(19, 7, create_fields("x", {}), rig.user("ann")).topics[0].error_code == DENIED
    assert "x" not in rig.broker.image.topics


def test_too_many_partitions_disclose_no_topic_that_may_not_be_altered(rig):
    """The bound counts the partitions that a topic has: its error told whether a denied topic exists, and how many."""
    ann = rig.user("ann")

    def grow(*names):
        topics = [{"name": name, "count": 20_000} for name in names]
        return [each.error_code for each in rig.ask_filled(37, 3, {"topics": topics}, ann).results]

    assert grow("theirs") == grow("absent") == [DENIED]
    rig.acl(Operation.ALTER, TOPIC, "mine")
    assert grow("theirs", "mine") == [DENIED, ErrorCode.policy_violation]


def test_partitions_of_a_topic_that_may_not_be_created_do_not_count(rig):
    rig.acl(CREATE, TOPIC, "new")
    many = create_fields("denied", {}, partitions=20_000)["topics"]
    fields = create_fields("new", {})
    answer = rig.ask_filled(19, 7, fields | {"topics": [*many, *fields["topics"]]}, rig.user("ann"))
    assert {topic.name: topic.error_code for topic in answer.topics} == {"denied": DENIED, "new": NONE}


def test_topic_of_another_client_is_not_deleted_and_an_absent_one_not_disclosed(rig):
    rig.acl(DELETE, TOPIC, "mine")
    rig.acl(DESCRIBE, TOPIC, "theirs")
    answer = rig.ask_filled(20, 5, {"topic_names": ["mine", "theirs", "absent"]}, rig.user("ann"))
    assert [each.error_code for each in answer.responses] == [NONE, DENIED, DENIED]
    rig.acl(DELETE, CLUSTER)
    answer = rig.ask_filled(20, 5, {"topic_names": ["theirs", "absent"]}, rig.user("ann"))
    assert [each.error_code for each in answer.responses] == [NONE, ErrorCode.unknown_topic_or_partition]


def test_deletion_by_id_names_a_denied_topic_only_where_the_client_may_describe_it(rig):
    """ControllerApis.deleteTopics: an absent id is disclosed, and the name of another client's topic is not."""
    rig.acl(DESCRIBE, TOPIC, "mine")
    ids = [rig.broker.image.topics[name].topic_id for name in ("mine", "theirs")] + [uuid.UUID(int=7)]
    asked = {"topics": [{"topic_id": each, "name": None} for each in ids]}
    answer = rig.ask_filled(20, 6, asked, rig.user("ann"))
    assert [(each.error_code, each.name, each.topic_id) for each in answer.responses] == [
        (DENIED, "mine", ids[0]),
        (DENIED, None, ids[1]),
        (ErrorCode.unknown_topic_id, None, ids[2]),
    ]


def _configs_of(name):
    return {"resources": [{"resource_type": 2, "resource_name": name, "configs": [{"name": "retention.ms"}]}]}


@pytest.mark.parametrize(
    ("api_key", "version", "request_about"),
    [
        (19, 7, lambda name: create_fields(name, {})),
        (20, 5, lambda name: {"topic_names": [name]}),
        (20, 6, lambda name: {"topics": [{"name": name, "topic_id": None}]}),
        (33, 2, _configs_of),
        (37, 3, lambda name: {"topics": [{"name": name, "count": 9}]}),
        (44, 1, _configs_of),
        (45, 1, lambda name: {"topics": [{"name": name, "partitions": [{"partition_index": 0, "replicas": [1]}]}]}),
    ],
)
def test_change_of_a_denied_topic_takes_no_longer_if_it_exists_or_not(
    rig, monkeypatch, api_key, version, request_about
):
    store_calls = note_calls(monkeypatch, rig.broker.metadata, "begin_own")
    ann = rig.user("ann")
    theirs, absent = (
        error_codes(rig.ask_filled(api_key, version, request_about(name), ann)) for name in ("theirs", "absent")
    )
    assert theirs == absent != set()
    assert not store_calls, "a wait for the newest image would disclose which of the topics exists"


def test_invalid_init_producer_id_is_denied_without_the_right_to_its_transactional_id(rig):
    given = {"transactional_id": "t", "producer_id": -1, "producer_epoch": 5}
    assert rig.ask_filled(22, 4, given, rig.user("ann")).error_code == ErrorCode.transactional_id_authorization_failed
    rig.acl(WRITE, ResourceType.TRANSACTIONAL_ID, "t")
    assert rig.ask_filled(22, 4, given, rig.user("ann")).error_code == ErrorCode.invalid_request


def test_idempotent_producer_needs_one_topic_that_it_may_write(rig):
    def code(user):
        given = {"producer_id": -1, "producer_epoch": -1}
        return rig.ask_filled(22, 4, given, rig.user(user)).error_code

    assert code("ann") == ErrorCode.cluster_authorization_failed
    rig.acl(WRITE, TOPIC, "mine")
    assert code("ann") == NONE
    rig.acl(Operation.IDEMPOTENT_WRITE, CLUSTER, user="bob")
    assert code("bob") == NONE


def test_denied_partition_of_a_transaction_keeps_the_others_out(rig):
    rig.acl(WRITE, ResourceType.TRANSACTIONAL_ID, "pay")
    rig.acl(WRITE, TOPIC, "mine")
    given = {
        "v3_and_below_transactional_id": "pay",
        "v3_and_below_topics": [{"name": name, "partitions": [0]} for name in ("mine", "theirs")],
    }
    answer = rig.ask_filled(24, 3, given, rig.user("ann"))
    codes = {
        each.name: each.results_by_partition[0].partition_error_code for each in answer.results_by_topic_v3_and_below
    }
    assert codes == {"mine": ErrorCode.operation_not_attempted, "theirs": DENIED}


# ---------------------------------------------------------------------------------------------------------- refusals


def test_refused_reassignment_has_the_error_of_each_partition(rig):
    """AlterPartitionReassignmentsRequest.getErrorResponse."""
    partitions = [{"partition_index": index, "replicas": [1]} for index in (0, 3)]
    answer = rig.ask_filled(45, 1, {"topics": [{"name": "mine", "partitions": partitions}]}, rig.user("ann"))
    refused = ErrorCode.cluster_authorization_failed, "Cluster authorization failed."
    assert (answer.error_code, answer.error_message) == refused
    (topic,) = answer.responses
    assert topic.name == "mine"
    found = [(each.partition_index, each.error_code, each.error_message) for each in topic.partitions]
    assert found == [(0, *refused), (3, *refused)]


def test_refused_list_of_reassignments_names_the_requested_partitions(rig):
    """ListPartitionReassignmentsRequest.getErrorResponse."""
    ann = rig.user("ann")
    answer = rig.ask_filled(46, 0, {"topics": [{"name": "mine", "partition_indexes": [0, 3]}]}, ann)
    assert answer.error_code == ErrorCode.cluster_authorization_failed
    (topic,) = answer.topics
    assert (topic.name, [(each.partition_index, each.replicas) for each in topic.partitions]) == (
        "mine",
        [(0, ()), (3, ())],
    )
    assert rig.ask_filled(46, 0, {"topics": None}, ann).topics == ()


def test_refused_description_of_users_has_the_error_of_each_user(rig):
    """DescribeUserScramCredentialsRequest.getErrorResponse, with the users' names, which Kafka leaves out."""
    ann = rig.user("ann")
    answer = rig.ask_filled(50, 0, {"users": [{"name": "bob"}, {"name": "eve"}]}, ann)
    denied = ErrorCode.cluster_authorization_failed
    assert answer.error_code == denied
    assert [(each.user, each.error_code) for each in answer.results] == [("bob", denied), ("eve", denied)]
    assert rig.ask_filled(50, 0, {"users": None}, ann).results == ()


# --------------------------------------------------------------------------------------------------- brokers, principals


def test_broker_that_has_proven_itself_may_do_everything(rig):
    channel = rig.user("stranger")
    rig.broker.connections[channel.connection_id].proven = Incarnation(9, 1, "boot")
    assert produce(rig, channel, "mine") == NONE
    assert metadata(rig, channel, None)[0] == {"mine": NONE, "theirs": NONE}


def test_request_of_this_process_counts_as_its_principal(rig):
    channel = rig.new_client()
    rig.become(channel, ANONYMOUS)
    rig.broker.connections[channel.connection_id].is_in_process = True
    assert produce(rig, channel, "mine") == DENIED


def test_everyone_may_use_a_resource_without_acls_where_the_config_says_so():
    rig = AclRig(**{"allow.everyone.if.no.acl.found": "true"})
    rig.create_topic("mine")
    assert produce(rig, rig.user("bob"), "mine") == NONE
    rig.acl(READ, TOPIC, "mine")
    assert produce(rig, rig.user("bob"), "mine") == DENIED


@pytest.mark.parametrize("authorizer", ["", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"])
@pytest.mark.parametrize(("principal", "may"), [(ADMIN, True), ("User:ann", False), (ANONYMOUS, False)])
def test_only_super_users_write_and_delete_internal_topics_with_acls_and_without(authorizer, principal, may):
    rig = AclRig(**{"authorizer.class.name": authorizer, "super.users": f"{ADMIN};{ANONYMOUS}"})
    rig.create_topic(OFFSETS_TOPIC)
    if authorizer:
        rig.acl(Operation.ALL, TOPIC, "*")
    channel = rig.new_client()
    rig.become(channel, principal)
    assert produce(rig, channel, OFFSETS_TOPIC) == ErrorCode.invalid_topic_exception, "without the admin's client id"
    answer = rig.ask_filled(20, 5, {"topic_names": [OFFSETS_TOPIC]}, channel)
    assert answer.responses[0].error_code == (NONE if may else DENIED)


# --------------------------------------------------------------------------------------------------------------- audit


def test_changes_and_denials_are_audited(rig):
    ann = rig.user("ann")
    rig.audit()
    rig.create_topic("new")
    rig.ask_filled(19, 5, create_fields("x", {}), ann)
    rig.ask(19, 5, **create_fields("new", {}))
    done, denied, failed = rig.audit()
    common = {"api": "CreateTopics", "principal": ADMIN, "host": "10.0.0.1"}
    assert done == common | {"result": "done", "resources": "topic new"}
    assert denied == common | {"result": "denied", "resources": "topic x", "principal": "User:ann"}
    assert failed == common | {"result": "failed", "resources": "topic new", "error": "TOPIC_ALREADY_EXISTS"}


def test_denied_request_is_counted_and_audited_once(rig):
    ann = rig.user("ann")
    rig.audit()
    fields = produce_fields("mine", record_batch([b"v"], 0))
    fields["topic_data"] *= 3
    rig.ask_filled(0, 9, fields, ann)
    assert [each["resources"] for each in rig.audit()] == ["WRITE TOPIC mine"]
    assert rig.broker.authorization.denied == {(WRITE, TOPIC): 1}


def test_long_lists_and_names_are_shortened_in_the_audit(rig):
    rig.audit()
    fields = create_fields("", {})
    (topic,) = fields["topics"]
    fields["topics"] = [topic | {"name": "x" * 1_000}, *(topic | {"name": f"t{number}"} for number in range(30))]
    rig.ask_filled(19, 5, fields, rig.user("ann"))
    (event,) = rig.audit()
    assert event["resources"].endswith("t18, 11 more")
    assert len(event["resources"]) < 600


def test_acls_and_configs_are_audited_without_values(rig):
    rig.audit()
    rig.acl(READ, TOPIC, "mine")
    alter(rig, TOPIC, "mine", {"retention.ms": "12345"})
    alter(rig, TOPIC, "mine", {"retention.ms": "7"}, validate_only=True)
    acl, config = rig.audit()
    assert acl["resources"] == "ALLOW User:ann READ TOPIC LITERAL mine from *"
    assert config["resources"] == "topic mine: retention.ms"


def test_requests_of_brokers_are_not_audited(rig):
    channel = rig.user("stranger")
    rig.broker.connections[channel.connection_id].proven = Incarnation(9, 1, "boot")
    rig.audit()
    rig.ask_filled(19, 5, create_fields("new", {}), channel)
    assert rig.audit() == []
