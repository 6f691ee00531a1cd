"""The Python API for any event loop: `yak.aio` and `yak.trio` only add a `loop.Loop`.

librdkafka's calls block, so they run in threads; a consumer has its own thread, which runs its calls in sequence. A
cancellation never abandons a call whose result must not be lost.
"""
