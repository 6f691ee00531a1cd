"""Rates and token buckets, against plain models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.quotas.quota_types import THROTTLE_MS_MAX
from yak.quotas.rate import Rate
from yak.quotas.token_bucket import TokenBucket

STEPS = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 1_000)), min_size=1, max_size=60)
"""(ms since the last one, value)."""


@given(STEPS, st.integers(2, 12), st.sampled_from([1_000, 250]))
def test_rate_counts_all_in_the_window_and_nothing_older_than_one_more_sample(steps, samples, window_ms):
    now_ms, rate, events = 1_000_000, Rate(samples, window_ms, 1_000_000), []
    for passed_ms, value in steps:
        now_ms += passed_ms
        rate.record(value, now_ms)
        events.append((now_ms, value))
        measured, over_ms = rate.measure(now_ms), rate.window_ms(now_ms)
        counted = measured * over_ms / 1000
        assert (samples - 1) * window_ms <= over_ms < (samples + 1) * window_ms
        least = sum(value for at_ms, value in events if now_ms - at_ms < samples * window_ms)
        most = sum(value for at_ms, value in events if now_ms - at_ms < (samples + 1) * window_ms)
        assert least - 1e-6 <= counted <= most + 1e-6


@given(STEPS, st.floats(0.1, 1000))
def test_throttle_time_brings_the_rate_to_the_limit(steps, limit):
    now_ms, rate = 1_000_000, Rate(11, 1_000, 1_000_000)
    for passed_ms, value in steps:
        now_ms += passed_ms
        rate.record(value, now_ms)
    throttle_ms = rate.throttle_ms(limit, now_ms)
    measured, window_ms = rate.measure(now_ms), rate.window_ms(now_ms)
    if measured <= limit:
        assert throttle_ms == 0
    else:
        assert measured * window_ms / (window_ms + throttle_ms) == pytest.approx(limit, rel=0.01)


def test_examples_of_kip_13():
    rate = Rate(11, 1_000, 0)
    rate.record(2_000, 0)
    # ten samples of nothing are before the first
    assert rate.measure(0) == 200
    assert rate.throttle_ms(100, 0) == 10_000
    assert rate.throttle_ms(200, 0) == 0
    rate.record(-2_000, 0)
    assert rate.measure(0) == 0
    for second in range(1, 31):
        rate.record(500, second * 1_000)
    # the sample from 20 s on is in the window, the one from 19 s on is not
    assert rate.window_ms(30_500) == 10_500
    assert rate.measure(30_999) == pytest.approx(500, rel=0.1)
    assert rate.measure(60_000) == 0


def test_rate_of_one_sample_divides_by_no_time():
    rate = Rate(1, 1_000, 0)
    rate.record(5, 0)
    assert rate.throttle_ms(1, 0) == 0
    rate.record(5, 500)
    assert rate.measure(500) == 20


@given(STEPS, st.floats(0.5, 100), st.integers(1, 20))
def test_bucket_holds_what_was_filled_less_what_was_taken(steps, limit, burst_seconds):
    now_ms, bucket, tokens = 0, TokenBucket(burst_seconds, limit, 0), burst_seconds * limit
    for passed_ms, value in steps:
        now_ms += passed_ms
        tokens = min(burst_seconds * limit, tokens + limit * passed_ms / 1000) - value
        bucket.take(value, limit, now_ms)
        assert bucket.measure(limit, now_ms) == pytest.approx(tokens, abs=1e-6)
        throttle_ms = bucket.throttle_ms(limit, now_ms)
        assert (throttle_ms > 0) == (tokens < -limit / 2000) or abs(tokens + limit / 2000) < 1e-6
        if throttle_ms:
            assert tokens + limit * throttle_ms / 1000 == pytest.approx(0, abs=limit / 1000)


def test_burst_of_kip_599_waits_for_what_is_missing_alone():
    bucket = TokenBucket(100, 5, 0)
    bucket.take(560, 5, 0)
    assert bucket.throttle_ms(5, 0) == 12_000
    assert bucket.throttle_ms(5, 12_000) == 0


EXTREMES = (5e-324, 1e-310, 1e-300, 1e300, 1.7976931348623157e308)
"""The smallest and the largest limits that AlterClientQuotas takes."""


@pytest.mark.parametrize("limit", EXTREMES)
def test_rate_throttles_for_any_limit(limit):
    rate = Rate(11, 1_000, 0)
    rate.record(1, 0)
    throttle_ms = rate.throttle_ms(limit, 0)
    assert throttle_ms == (0 if limit > 1 else THROTTLE_MS_MAX)


@pytest.mark.parametrize("limit", EXTREMES)
def test_bucket_throttles_for_any_limit(limit):
    bucket = TokenBucket(11, limit, 0)
    bucket.take(1, limit, 0)
    assert bucket.throttle_ms(limit, 0) == (0 if limit > 1 else THROTTLE_MS_MAX)
    assert bucket.throttle_ms(limit, 2**40) == (0 if limit > 1 else THROTTLE_MS_MAX)
