"""The use of quotas by clients: shared or apart, bounded in memory, refused and waited for."""

import pytest

from tests.rig import Rig
from yak.broker.throttling import Throttling
from yak.errors import ErrorCode, PeerError
from yak.limits import QUOTA_CLIENTS_MAX
from yak.quotas.client_quotas import IDLE_MS_MAX, ClientQuotas
from yak.quotas.quota_types import QuotaType

PRODUCE, FETCH, REQUEST = QuotaType.PRODUCE, QuotaType.FETCH, QuotaType.REQUEST


@pytest.fixture
def rig():
    return Rig()


def quotas_of(rig, quotas):
    made = ClientQuotas(rig.node.broker.context)
    made.set_quotas(quotas)
    return made


def test_each_client_id_of_a_default_has_a_rate_of_its_own_and_clients_of_a_user_share_one(rig):
    quotas = quotas_of(rig, {"client-id=<default>": {"producer_byte_rate": "100"}})
    assert quotas.record(PRODUCE, "ann", "a", 2_000) == 10_000
    assert quotas.record(PRODUCE, "ann", "b", 1_000) == 0
    assert quotas.record(PRODUCE, "bob", "a", 1) > 10_000
    quotas.set_quotas({"user=<default>": {"producer_byte_rate": "100"}})
    assert quotas.record(PRODUCE, "ann", "a", 1_000) == 0
    assert quotas.record(PRODUCE, "ann", "b", 1_000) == 10_000
    assert quotas.record(PRODUCE, "bob", "b", 1_000) == 0
    assert quotas.record(FETCH, "ann", "a", 1e9) == 0


def test_a_changed_limit_counts_what_was_used_before(rig):
    quotas = quotas_of(rig, {"user=ann": {"producer_byte_rate": "1000"}})
    assert quotas.record(PRODUCE, "ann", "a", 2_000) == 0
    quotas.set_quotas({"user=ann": {"producer_byte_rate": "100"}})
    assert quotas.record(PRODUCE, "ann", "a", 0) == 10_000


def test_request_time_and_connections_throttle_for_one_sample_at_most(rig):
    quotas = quotas_of(
        rig, {"user=ann": {"request_percentage": "1"}, "ip=<default>": {"connection_creation_rate": "1"}}
    )
    assert quotas.record(REQUEST, "ann", "a", 10) == 0
    assert quotas.record(REQUEST, "ann", "a", 1_000) == 1_000
    assert [quotas.connection("10.0.0.1") for _ in range(12)] == [0] * 10 + [1_000] * 2
    assert quotas.connection("10.0.0.2") == 0


def test_clients_are_bounded_and_idle_ones_are_forgotten(rig):
    quotas = quotas_of(rig, {"client-id=<default>": {"producer_byte_rate": "100"}})
    for number in range(QUOTA_CLIENTS_MAX + 10):
        quotas.record(PRODUCE, "ann", f"client {number} " + "x" * 30_000, 1)
    assert len(quotas) == QUOTA_CLIENTS_MAX
    rig.run_for(IDLE_MS_MAX - 1_000)
    quotas.record(PRODUCE, "ann", "last", 1)
    rig.run_for(2_000)
    assert len(quotas) == 1
    rig.run_for(IDLE_MS_MAX)
    assert len(quotas) == 0


def test_strict_mutation_quota_refuses_and_a_permissive_one_throttles(rig):
    quotas = quotas_of(rig, {"user=ann": {"controller_mutation_rate": "2"}})
    strict = quotas.mutations("ann", "a", is_strict=True)
    strict.record(30)  # more than the burst of 22: the quota was not exceeded before
    assert (strict.is_exceeded, strict.throttle_ms()) == (False, 0)
    with pytest.raises(PeerError) as caught:
        strict.record(1)
    assert caught.value.error_code == ErrorCode.throttling_quota_exceeded
    assert (strict.is_exceeded, strict.throttle_ms()) == (True, 4_000)
    permissive = quotas.mutations("ann", "a", is_strict=False)
    permissive.record(2)
    assert (permissive.is_exceeded, permissive.throttle_ms()) == (False, 5_000)
    assert quotas.mutations("bob", "a", is_strict=True) is None


def test_fetch_of_a_client_is_bounded_by_the_samples_before_the_present_one(rig):
    quotas = quotas_of(rig, {"user=ann": {"consumer_byte_rate": "100"}})
    assert quotas.fetch_bytes_max("ann", "a") == 1_000
    assert quotas.fetch_bytes_max("bob", "a") == 2**31 - 1


def test_throttling_without_quotas_is_inactive(rig):
    throttling = Throttling(rig.node.broker.context, int, lambda *_: None)
    assert not throttling.is_active
    throttling.set_quotas({"ip=::1": {"connection_creation_rate": "1"}})
    assert throttling.is_active
    throttling.set_quotas({})
    assert not throttling.is_active
