"""The Python API for event loops, whichever they are: `yak.aio` and `yak.trio` bring a `loop.Loop` and nothing else.

librdkafka's calls block, so they run in threads; a consumer has one thread of its own, in which everything that it does
happens in turn. No call is given up while its thread works on something that must not be lost.
"""
