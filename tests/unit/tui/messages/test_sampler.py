"""Some of many: how many, which, and how calmly it changes."""

from collections import Counter

import pytest

from yak.tui.messages.sampler import RateMeter, Sampler


def run(sampler, rate, seconds, *, start_ms=0.0, step_ms=50.0):
    """Feed numbered items at a rate; what was picked, and the n of each step."""
    picked, every, sent = [], [], 0
    steps = int(seconds * 1000 / step_ms)
    for step in range(steps):
        count = int((step + 1) * rate * step_ms / 1000) - sent
        picked += sampler.pick(range(sent, sent + count), start_ms + step * step_ms)
        every.append(sampler.every)
        sent += count
    return picked, every


def test_sampler_passes_all_records_up_to_the_limit():
    picked, every = run(Sampler(500), 480, 4)
    assert set(every) == {1}
    assert len(picked) == 1920


def test_ten_thousand_a_second_show_one_of_twenty():
    picked, every = run(Sampler(500), 10_000, 5)
    assert set(every[25:]) == {20}
    assert len([each for each in picked if each >= 30_000]) == pytest.approx(1000, abs=5)


@pytest.mark.parametrize(("rate", "expected"), [(560, 2), (1_200, 5), (2_800, 10), (60_000, 200), (300_000, 1000)])
def test_n_is_a_round_number(rate, expected):
    _, every = run(Sampler(500), rate, 4)
    assert every[-1] == expected


def test_sampler_settles_near_the_limit():
    for rate in (700, 3_333, 9_842, 77_777):
        picked, _ = run(Sampler(500), rate, 6)
        assert len([each for each in picked if each >= 3 * rate]) <= 3 * 500 * 1.12


def test_a_rate_that_wavers_leaves_n_as_it_is():
    sampler = Sampler(500)
    run(sampler, 9_500, 3)
    seen = set()
    for turn in range(10):
        _, every = run(sampler, 8_500 if turn % 2 else 9_900, 1, start_ms=3000 + turn * 1000)
        seen |= set(every)
    assert seen == {20}


def test_n_falls_again_when_less_comes():
    sampler = Sampler(500)
    run(sampler, 10_000, 3)
    _, every = run(sampler, 300, 6, start_ms=3000)
    assert every[-1] == 1
    assert every[40] == 20, "not at once"


def test_a_burst_does_not_keep_n_up():
    sampler = Sampler(500)
    run(sampler, 9_900, 2)
    _, every = run(sampler, 14_000, 1, start_ms=2000)
    assert every[-1] == 50
    _, every = run(sampler, 9_900, 5, start_ms=3000)
    assert every[-1] == 20


def test_sampler_takes_records_of_every_partition():
    sampler = Sampler(500)
    picked, every = run(sampler, 10_000, 10)
    assert every[-1] == 20
    shares = Counter(each % 20 for each in picked[2000:])
    assert len(shares) == 20
    assert max(shares.values()) <= 2 * min(shares.values())


def test_a_rate_is_of_the_last_second_and_falls_to_nothing():
    meter = RateMeter()
    for step in range(40):
        meter.add(10, step * 50.0)
    assert meter.rate(1999.0) == pytest.approx(200, rel=0.06)
    assert meter.rate(2500.0) < 150
    assert meter.rate(4000.0) == 0


def test_rate_of_one_record_is_not_a_thousand_per_second():
    meter = RateMeter()
    meter.add(0, 0.0)
    meter.add(1, 1.0)
    assert meter.rate(1.0) <= 10
