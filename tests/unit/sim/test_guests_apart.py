"""The check on guests finds each thing that must not be."""

import pytest

from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.sim.books import Violation
from yak.sim.checks.guests_apart import GuestsApart
from yak.sim.store import SimStore


@pytest.fixture
def store():
    store = SimStore()
    store.state.guests[9] = {"broker_epoch": 2}
    store.state.cluster["ctl_id"] = 1
    store.state.brokers[1] = {}
    store.state.partitions["t", 0] = {"replicas": "1,2", "isr": "1@2", "leader": 1}
    return store


def look(check):
    check.store_changed(StoreRequest("x"), StoreOutcome("OK"))


def test_a_guest_that_only_stands_there_is_well(store):
    look(GuestsApart(store))


@pytest.mark.parametrize("change", [{"replicas": "1,9"}, {"isr": "1@2,9@2"}, {"leader": 9}])
def test_one_that_has_a_partition_is_found(store, change):
    store.state.partitions["t", 0] |= change
    with pytest.raises(Violation, match="guest 9 has partition 0"):
        look(GuestsApart(store))


def test_one_that_is_a_broker_or_the_controller_is_found(store):
    store.state.brokers[9] = {}
    with pytest.raises(Violation, match="9 is a guest and a broker"):
        look(GuestsApart(store))
    del store.state.brokers[9]
    store.state.cluster["ctl_id"] = 9
    with pytest.raises(Violation, match="is the controller"):
        look(GuestsApart(store))


def test_one_whose_epoch_fell_is_found(store):
    check = GuestsApart(store)
    look(check)
    store.state.guests[9]["broker_epoch"] = 1
    with pytest.raises(Violation, match="its epoch fell"):
        look(check)
