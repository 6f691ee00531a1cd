from yak import limits


def test_a_frame_gets_more_time_the_larger_it_is():
    assert limits.frame_deadline_ms(0) == limits.FRAME_MS_MAX
    assert limits.frame_deadline_ms(64 * 1024 * 10) == limits.FRAME_MS_MAX + 10_000


def test_requests_may_take_a_quarter_of_the_memory_but_always_one_of_the_largest():
    assert limits.request_memory_bytes_max(16 * 2**30) == 4 * 2**30
    assert limits.request_memory_bytes_max(64 * 2**20) == limits.REQUEST_BYTES_MAX
