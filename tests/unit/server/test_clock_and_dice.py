from yak.server.clock import Clock
from yak.server.dice import SystemDice


def test_the_clock_starts_at_the_wall_and_never_goes_back() -> None:
    wall = [1_700_000_000_000_000_000]
    clock = Clock(lambda: wall[0])
    first = clock.now_ms()
    assert abs(first - 1_700_000_000_000) < 1000
    wall[0] -= 3_600_000_000_000
    assert clock.now_ms() >= first


def test_ids_are_fresh_and_none_that_kafka_reserves() -> None:
    dice = SystemDice()
    ids = {dice.uuid4() for _ in range(200)}
    assert len(ids) == 200
    assert all(each.int >= 100 for each in ids)
    assert {dice.below(3) for _ in range(100)} == {0, 1, 2}
