import os
from pathlib import Path

import pytest

from yak.config.broker_configs import BrokerConfig
from yak.limits import request_memory_bytes_max
from yak.server.memory_limit import memory_bytes, request_memory_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MIB = 2**20


def limit(tmp_path: Path, cgroups: str, files: dict[str, str]) -> int:
    (tmp_path / "cgroup").write_text(cgroups)
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return memory_bytes(str(tmp_path / "cgroup"), str(tmp_path / "mount"))


@pytest.mark.parametrize(
    ("cgroups", "files"),
    [
        ("0::/\n", {"memory.max": 64 * MIB}),
        ("0::/yak.slice/one\n", {"yak.slice/one/memory.max": 64 * MIB, "yak.slice/memory.max": "max"}),
        ("0::/yak.slice/one\n", {"yak.slice/one/memory.max": 65 * MIB, "yak.slice/memory.max": 64 * MIB}),
        ("4:memory:/one\n0::/\n", {"memory/one/memory.limit_in_bytes": 64 * MIB}),
        ("4:cpu,memory:/docker/7\n0::/\n", {"memory/memory.limit_in_bytes": 64 * MIB}),
    ],
    ids=["container", "service", "slice", "version 1", "container of version 1"],
)
def test_memory_limit_of_a_control_group_is_the_process_memory(tmp_path, cgroups, files):
    assert limit(tmp_path, cgroups, files) == 64 * MIB


@pytest.mark.parametrize(
    ("cgroups", "files"),
    [
        ("", {}),
        ("0::/gone\n3:cpuset:/\n", {"gone/memory.max": "max", "cpuset/memory.limit_in_bytes": 64 * MIB}),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": 9223372036854771712}),
    ],
    ids=["none", "max", "version 1 without a limit"],
)
def test_memory_limit_without_a_control_groups_limit_is_the_machines(tmp_path, cgroups, files):
    assert limit(tmp_path, cgroups, files) == MACHINE


@pytest.mark.parametrize(("given", "taken"), [("-1", None), ("0", None), ("1", 1)])
def test_memory_for_requests_is_unset_below_1_as_in_kafka(given, taken):
    config = BrokerConfig.from_settings({"queued.max.request.bytes": given})
    assert request_memory_bytes(config) == (taken or request_memory_bytes_max(memory_bytes()))


def test_memory_limit_without_control_groups_is_the_machines(tmp_path):
    assert memory_bytes(str(tmp_path / "absent"), str(tmp_path)) == MACHINE
