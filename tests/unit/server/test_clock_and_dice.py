import time

from yak.server.clock import Clock
from yak.server.random_source import SystemRandomSource


def test_the_clock_starts_at_the_wall_and_never_goes_back() -> None:
    wall = [1_700_000_000_000_000_000]
    clock = Clock(lambda: wall[0])
    first = clock.now_ms()
    assert abs(first - 1_700_000_000_000) < 1000
    wall[0] -= 3_600_000_000_000
    assert clock.now_ms() >= first


def test_wall_clock_jump_is_reported_once_with_its_size() -> None:
    moved_ns = 0
    clock = Clock(lambda: time.time_ns() + moved_ns)
    assert clock.wall_moved(clock.now_ns()) is None
    moved_ns = 3_600_000_000_000
    assert clock.wall_moved(clock.now_ns()) in range(3_599_950, 3_600_050)
    assert clock.wall_moved(clock.now_ns()) is None
    assert clock.wall_ms() - clock.now_ms() in range(3_599_950, 3_600_050)
    moved_ns = 0
    assert clock.wall_moved(clock.now_ns()) in range(-50, 50)


def test_wall_clock_that_was_read_much_later_than_the_steady_one_did_not_move() -> None:
    clock = Clock()
    assert clock.wall_moved(clock.now_ns() - 500_000_000) is None


def test_ids_are_fresh_and_none_that_kafka_reserves() -> None:
    rng = SystemRandomSource()
    ids = {rng.uuid4() for _ in range(200)}
    assert len(ids) == 200
    assert all(each.int >= 100 for each in ids)
    assert {rng.below(3) for _ in range(100)} == {0, 1, 2}
