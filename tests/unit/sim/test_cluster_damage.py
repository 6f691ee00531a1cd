"""Damage of the simulator: what stands there, what should, and that whoever looks at the files knows."""

from yak.sim.cluster_run import run_cluster_seed
from yak.sim.disk import SimDisk
from yak.sim.disk_content import Content


def content(data: bytes) -> Content:
    made = Content()
    made.data += data
    return made


def test_what_is_damaged_remembers_what_was_right_in_any_order():
    file = content(b"0123456789")
    assert file.damage(2, b"abcd")
    assert file.damage(4, b"XYZ")
    assert file.damage(8, b"zzzz")
    assert (bytes(file.data), bytes(file.sound())) == (b"01abXYZ7zz", b"0123456789")
    file.truncate(5)
    file.data += b"new"
    assert (bytes(file.data), bytes(file.sound())) == (b"01abXnew", b"01234new")
    file.truncate(2)
    assert not file.wounds


def test_the_same_bytes_again_and_what_is_behind_the_end_are_no_damage():
    file = content(b"0123")
    assert not file.damage(1, b"12")
    assert not file.damage(4, b"x")
    assert not file.wounds


def test_the_broker_reads_what_stands_there_and_the_checks_what_should():
    disk = SimDisk()
    disk.make_directory("/d")
    file = disk.open("/d/f", create=True)
    file.append([b"right"])
    disk.contents()["/d/f"].damage(0, b"w")
    assert (file.read(9, 0), disk.peek("/d/f", 0)) == (b"wight", b"right")


def test_misdirected_writes_strike_and_are_noticed_by_all_who_read():
    totals: dict[str, int] = {}
    for seed in range(1, 13):
        verdict = run_cluster_seed(seed, faults=("misdirected", "rot", "kill", "stop"))
        assert verdict.error is None, (seed, verdict.error)
        for name, count in verdict.counts.items():
            totals[name] = totals.get(name, 0) + count
    for name in (
        "misdirected",
        "rot",
        "damage found at a start",
        "damage refused by followers",
        "damage mended by hand",
    ):
        assert totals.get(name, 0) > 0, name
