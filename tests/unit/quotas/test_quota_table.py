"""The quota that applies to a client, against a plain table of Kafka's eight levels."""

from hypothesis import given
from hypothesis import strategies as st

from yak.quotas.entity import encode_entity
from yak.quotas.quota_table import ABSENT, QuotaTable
from yak.quotas.quota_types import QuotaType

LEVELS = [
    ({"user": "ann", "client-id": "app"}, ("ann", "app")),
    ({"user": "ann", "client-id": None}, ("ann", "app")),
    ({"user": "ann"}, ("ann", ABSENT)),
    ({"user": None, "client-id": "app"}, ("ann", "app")),
    ({"user": None, "client-id": None}, ("ann", "app")),
    ({"user": None}, ("ann", ABSENT)),
    ({"client-id": "app"}, (ABSENT, "app")),
    ({"client-id": None}, (ABSENT, "app")),
]
"""An entity, and who shares its quota, from the first that applies to ann's app to the last."""
OTHERS = [
    {"user": "bob"},
    {"user": "bob", "client-id": "app"},
    {"client-id": "other"},
    {"user": "ann", "client-id": "x"},
]


def name(entity):
    return encode_entity(tuple(entity.items()))


@given(st.sets(st.sampled_from(range(8))), st.sets(st.sampled_from(range(4))))
def test_first_level_that_is_set_applies(levels, others):
    quotas = {name(LEVELS[level][0]): {"producer_byte_rate": str(level + 1)} for level in levels}
    quotas |= {name(OTHERS[index]): {"producer_byte_rate": "99"} for index in others}
    table = QuotaTable(quotas)
    found = table.find(QuotaType.PRODUCE, "ann", "app")
    assert found == ((min(levels) + 1, LEVELS[min(levels)][1]) if levels else None)
    assert table.find(QuotaType.FETCH, "ann", "app") is None
    assert bool(table) == bool(quotas)


def test_levels_are_of_each_quota_for_itself():
    table = QuotaTable(
        {name(LEVELS[0][0]): {"consumer_byte_rate": "1"}, name(LEVELS[7][0]): {"producer_byte_rate": "2"}}
    )
    assert table.find(QuotaType.PRODUCE, "ann", "app").limit == 2
    assert table.find(QuotaType.FETCH, "ann", "app").limit == 1
    assert table.find(QuotaType.FETCH, "bob", "app") is None


def test_client_without_a_client_id_has_the_quotas_of_users_and_of_any_client_id():
    table = QuotaTable({"user=ann": {"producer_byte_rate": "1"}})
    assert table.find(QuotaType.PRODUCE, "ann", "") == (1, ("ann", ABSENT))
    table = QuotaTable(
        {"user=ann": {"producer_byte_rate": "1"}, "user=ann,client-id=<default>": {"producer_byte_rate": "2"}}
    )
    assert table.find(QuotaType.PRODUCE, "ann", "") == (2, ("ann", ""))


def test_ip_has_its_own_limit_in_any_spelling_or_the_default():
    table = QuotaTable(
        {"ip=2001:0db8::0001": {"connection_creation_rate": "1"}, "ip=<default>": {"connection_creation_rate": "2"}}
    )
    assert table.limit_of_ip("2001:db8::1") == 1
    assert table.limit_of_ip("10.0.0.1") == 2
    assert QuotaTable({"user=ann": {"producer_byte_rate": "1"}}).limit_of_ip("10.0.0.1") is None
    mapped = QuotaTable({"ip=::ffff:10.0.0.1": {"connection_creation_rate": "3"}})
    assert mapped.limit_of_ip("10.0.0.1") == 3, "a client's IPv4 address is an IPv4 address also on an IPv6 socket"


def test_quota_of_zero_that_an_older_yak_stored_is_skipped():
    table = QuotaTable({"ip=<default>": {"connection_creation_rate": "0.0"}})
    assert table.limit_of_ip("10.0.0.1") is None


def test_quota_of_a_newer_yak_is_skipped():
    assert not QuotaTable({"user=ann": {"a_quota_of_tomorrow": "1"}})
