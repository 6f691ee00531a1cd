from support.stores import Caller, brokers, kinds


def test_registering_gives_the_offset_of_the_registration_as_epoch(backend):
    caller = Caller(backend).join(active=False)
    record = backend.records()[-1]
    assert record.kind == "RegisterBroker"
    assert caller.who["broker_epoch"] == record.offset == record.payload["broker_epoch"]
    assert record.payload["rack"] is None
    assert caller.image.brokers[1].state == "FENCED"


def test_registration_keeps_the_endpoints_of_all_listeners(backend):
    text = "INTERNAL=PLAINTEXT://10.0.0.1:9092,EXTERNAL=SASL_SSL://localhost:19092"
    caller = Caller(backend).join(active=False)
    assert caller.image.brokers[1].endpoints == ()
    assert caller.register("boot-2", endpoints=text).code == "OK"
    assert backend.records()[-1].payload["endpoints"] == text


def test_registering_the_same_boot_again_is_a_repeat(one, backend):
    before = kinds(backend)
    assert one.register().value == {"broker_epoch": 2, "lossy": False, "secret": ""}
    assert kinds(backend) == before


def test_secret_of_the_first_registration_stays_and_every_later_one_gets_it(one, backend):
    before = kinds(backend)
    assert one("verify").value["secret"] == ""
    assert one.register(secret="first").value["secret"] == "first"
    assert one.register(secret="second").value["secret"] == "first"
    assert one.register().value["secret"] == "first"
    assert one("verify").value["secret"] == "first"
    assert kinds(backend) == before
    other = Caller(backend, 2).join(active=False)
    assert other.register(secret="third").value["secret"] == "first"
    assert "first" not in str(backend.records())


def test_incarnation_with_the_same_directory_takes_over_at_once_and_the_old_is_stale(one, backend):
    old = Caller(backend)
    old.who |= one.who
    assert one.register("boot-2").code == "OK"
    assert old("heartbeat", persisted=0).code == "STALE_BROKER_EPOCH"
    assert one("heartbeat", persisted=0).code == "OK"


def test_a_node_id_in_use_needs_a_silent_heartbeat(one, backend):
    one("heartbeat", persisted=1)
    other = Caller(backend)
    other.who |= one.who
    refused = other.register("boot-2", "elsewhere")
    assert refused.code == "NODE_ID_IN_USE"
    assert refused.value == {"heartbeat": 1, "host": "localhost", "port": 9092, "boot_id": "1-boot-1"}
    one("heartbeat", persisted=1)
    assert other.register("boot-2", "elsewhere", observed_heartbeat=1).code == "NODE_ID_IN_USE"
    assert other.register("boot-2", "elsewhere", observed_heartbeat=2).code == "OK"


def test_stopping_twice_is_one_record(one, backend):
    assert one("begin_stop", state="STOPPING").code == "OK"
    assert one("begin_stop", state="STOPPING").code == "OK"
    assert kinds(backend).count("BrokerChange") == 2
    assert one("begin_stop", state="ASLEEP").code == "BAD_REQUEST"


def test_only_the_controllers_current_epoch_may_fence(backend):
    one, other = brokers(backend, 2)
    target = {"target_id": 2, "target_epoch": other.who["broker_epoch"]}
    refused = other("fence", **target)
    assert (refused.code, refused.value) == ("FENCED_CONTROLLER", {"controller_id": 1})
    assert one("fence", **(target | {"target_epoch": 1})).code == "STALE_EPOCH"
    assert one("fence", **target).code == "OK"
    assert one("fence", **target).code == "OK"
    assert one.catch_up().image.brokers[2].state == "FENCED"
    assert kinds(backend).count("BrokerChange") == 3


def test_a_broker_that_does_not_have_its_registration_on_disk_is_not_let_in(backend):
    one = Caller(backend).join()
    other = Caller(backend, 2).join(active=False)
    assert one.unfence(other).code == "NOT_CAUGHT_UP"


def test_unregistering_needs_a_broker_that_is_not_alive(backend):
    one, other = brokers(backend, 2)
    assert one("unregister", target_id=2).code == "BROKER_ACTIVE"
    assert one("unregister", target_id=9).code == "NO_BROKER"
    assert other("begin_stop", state="CLOSED").code == "OK"
    assert one("unregister", target_id=2).code == "OK"
    assert 2 not in one.catch_up().image.brokers


def test_broker_that_registered_again_is_not_unregistered_by_a_call_about_its_former_epoch(backend):
    one, two = brokers(backend, 2)
    one.fence(two)
    former = two.who["broker_epoch"]
    two.register("boot-2")
    assert two.who["broker_epoch"] > former
    assert one("unregister", target_id=2, target_epoch=former).code == "BROKER_ACTIVE"
    assert 2 in one.catch_up().image.brokers
    assert one("unregister", target_id=2, target_epoch=two.who["broker_epoch"]).code == "OK"
    assert 2 not in one.catch_up().image.brokers


def test_a_fenced_broker_renews_and_takes_a_new_epoch_in_the_same_boot(backend):
    one, two = brokers(backend, 2)
    one.fence(two)
    old = two.other_view()
    renewed = two.register(renew=True)
    assert renewed.value == {"broker_epoch": backend.records()[-1].offset, "lossy": False, "secret": ""}
    assert old("heartbeat", persisted=0).code == "STALE_BROKER_EPOCH"
    # The same renewal arriving again, or late, is no further one.
    before = kinds(backend)
    assert old.register(renew=True).value == renewed.value
    assert kinds(backend) == before
    assert one.catch_up().image.brokers[2].state == "FENCED"


def test_a_disk_that_knows_of_the_last_boot_that_acted_lost_nothing(backend):
    one, two = brokers(backend, 2)
    known = two.who["broker_epoch"]
    assert two.register("boot-2", last_epoch=known).value["lossy"] is False
    assert one.catch_up().image.brokers[2].lossy_epoch == 0
    # The boot that just ended was never let in: that the disk does not know of it means nothing.
    assert two.register("boot-3", last_epoch=known).value["lossy"] is False


def test_an_older_disk_is_lossy_whatever_the_broker_says(backend):
    one, two = brokers(backend, 2)
    restored = two.register("boot-2", last_epoch=two.who["broker_epoch"] - 1)
    assert restored.value["lossy"] is True
    assert backend.records()[-1].payload["lossy"] is True
    assert one.catch_up().image.brokers[2].lossy_epoch == two.who["broker_epoch"]
    assert two.register("boot-2").value == restored.value


def test_disk_that_lacks_the_newest_metadata_of_the_boot_before_is_lossy(backend):
    _one, two = brokers(backend, 2)
    had, epoch = backend.records()[-1].offset, two.who["broker_epoch"]
    assert two("heartbeat", persisted=had).code == "OK"
    kept = two.register("boot-2", last_epoch=epoch, persisted=had)
    assert kept.value["lossy"] is False
    assert two("heartbeat", persisted=had + 1).code == "OK"
    assert two.register("boot-2", last_epoch=epoch, persisted=had, renew=True).value["lossy"] is False
    two("heartbeat", persisted=had + 2)
    assert two.register("boot-3", last_epoch=epoch, persisted=had + 1).value["lossy"] is True


def test_metadata_of_a_boot_count_until_a_later_one_reports_its_own(backend):
    _one, two = brokers(backend, 2)
    had, epoch = backend.records()[-1].offset, two.who["broker_epoch"]
    two("heartbeat", persisted=had)
    assert two.register("boot-2", last_epoch=epoch, persisted=had).value["lossy"] is False
    two("heartbeat", persisted=had + 1)
    two.register("boot-2", last_epoch=epoch, persisted=had, renew=True)
    # neither the renewal nor boot 3 lives until its first heartbeat
    assert two.register("boot-3", last_epoch=epoch, persisted=had + 1).value["lossy"] is False
    assert two.register("boot-4", last_epoch=epoch, persisted=had).value["lossy"] is True


def test_a_missing_directory_is_lossy_and_another_one_more_is_not(backend):
    _one, two = brokers(backend, 2, directory="x,y")
    assert two.register("boot-2", "x,y,z").value["lossy"] is False
    assert two.register("boot-3", "x,z").value["lossy"] is True


def test_a_broker_that_closed_may_have_lost_its_disk_meanwhile(backend):
    _one, two = brokers(backend, 2)
    two("begin_stop", state="CLOSED")
    assert two.register("boot-2", last_epoch=0).value["lossy"] is True
    three = brokers(backend, 1)[0]
    three("begin_stop", state="CLOSED")
    assert three.register("boot-2", "elsewhere").value["lossy"] is True


def test_a_controller_that_let_itself_in_acts_once_its_registration_is_on_disk(one):
    # It was let in before it had the record: a crash in between must not look like an older disk.
    assert one.register("boot-2", last_epoch=0).value["lossy"] is False
    one.take_office()
    one.unfence(one)
    one.beat()
    assert one.register("boot-3", last_epoch=0).value["lossy"] is True


def test_a_node_id_that_was_unregistered_is_no_former_member_of_anything(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["2"])
    one.fence(two)
    assert one("unregister", target_id=2).code == "OK"
    assert two.register("boot-2").value["lossy"] is True
    assert one.catch_up().image.brokers[2].lossy_epoch == two.who["broker_epoch"]
    two.beat()
    one.unfence(two)
    assert one.elect(2) == "INELIGIBLE_REPLICA"


def test_not_more_than_half_of_the_brokers_are_fenced_on_suspicion(backend):
    one, *others = brokers(backend, 4)
    assert one.fence(others[0], fast=True).code == "OK"
    assert one.fence(others[0], fast=True).code == "OK"
    assert one.fence(others[1], fast=True).code == "OK"
    assert one.fence(others[2], fast=True).code == "TOO_MANY_FENCED"
    assert one.catch_up().image.brokers[4].state == "ACTIVE"
    backend.pass_time(20_000)
    assert one.fence(others[2], fast=True).code == "OK"


def test_a_session_that_ran_out_is_fenced_without_a_limit(backend):
    one, *others = brokers(backend, 3)
    assert [one.fence(other).code for other in others] == ["OK", "OK"]
    # These were no suspicions, and do not count as such.
    one.unfence(others[0])
    assert one.fence(others[0], fast=True).code == "OK"


def test_broker_of_two_may_be_fenced_on_suspicion_and_again_after_its_return(backend):
    one, two = brokers(backend, 2)
    assert one.fence(two, fast=True).code == "OK"
    two.restart("boot-2", one)
    assert one.fence(two, fast=True).code == "OK"


def test_broker_of_three_must_return_before_the_next_is_fenced_on_suspicion(backend):
    one, two, three = brokers(backend, 3)
    assert one.fence(two, fast=True).code == "OK"
    assert one.fence(three, fast=True).code == "TOO_MANY_FENCED"
    two.register("boot-2")
    assert one.fence(three, fast=True).code == "OK"


def test_fencing_on_suspicion_before_the_clock_went_back_does_not_count(backend):
    one, two, three = brokers(backend, 3)
    assert one.fence(two, fast=True).code == "OK"
    backend.pass_time(-3_600_000)
    assert one.fence(three, fast=True).code == "OK"


def test_brokers_that_closed_do_not_count_for_the_limit(backend):
    one, two, three = brokers(backend, 3)
    three("begin_stop", state="CLOSED")
    assert one.fence(two, fast=True).code == "OK"
