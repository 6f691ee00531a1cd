"""A step that waits for the device ends the run."""

import pytest

from tests.rig import Rig
from yak.broker.broker import Broker
from yak.sim.deliveries import Violation
from yak.sim.step_probe import EXCEPTIONS

PATH = "/data/orders-0/00000000000000000000.log"


def rename_and_back(disk):
    disk.rename(PATH, "/data/aside")
    disk.rename("/data/aside", PATH)


def call_in_each_step(monkeypatch, call):
    real = Broker.step

    def step(self, event, now_ms):
        call(self.log_store.disk)
        return real(self, event, now_ms)

    step.__qualname__ = "not the step"
    monkeypatch.setattr(Broker, "step", step)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda disk: disk.open(PATH).sync(), "sync"),
        (lambda disk: disk.open(PATH).read(1, 0), "read"),
        (lambda disk: disk.read_file(PATH), "read"),
        (lambda disk: disk.write_file("/data/new", b""), "sync"),
        (lambda disk: disk.remove("/data/absent"), "remove"),
        (lambda disk: disk.remove_tree("/data/absent"), "remove"),
        (lambda disk: disk.sync_directory("/data"), "sync"),
        (lambda disk: [rename_and_back(disk) for _ in range(3)], "rename"),
    ],
)
def test_step_with_a_slow_disk_call_is_a_violation(monkeypatch, call, name):
    rig = Rig()
    rig.create_topic("orders")
    call_in_each_step(monkeypatch, call)
    with pytest.raises(Violation, match=f"{name} of /data.* inside a step"):
        rig.produce("orders", [b"a"])


def test_step_with_few_renames_and_a_cached_read_is_no_violation(monkeypatch):
    rig = Rig()
    rig.create_topic("orders")
    call_in_each_step(monkeypatch, lambda disk: (disk.open(PATH).read_cached(1, 0), rename_and_back(disk)))
    assert rig.produce("orders", [b"a"]).error_code == 0


def test_job_with_slow_disk_calls_is_no_violation():
    rig = Rig()
    rig.create_topic("orders", flush_messages="1")
    before = rig.node.disk.syncs
    assert rig.produce("orders", [b"a"]).error_code == 0
    assert rig.node.disk.syncs > before


@pytest.mark.parametrize("function", sorted({function for _call, function in EXCEPTIONS}))
def test_exceptions_name_functions_of_the_product(function):
    module, _, name = function.partition(":")
    found = __import__(f"yak.{module}", fromlist=["x"])
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)
