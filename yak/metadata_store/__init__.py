"""The metadata store as a state machine: pure and deterministic, since each call brings the time, and the ids it needs.

`scripts.execute(state, request, now_ms)` does what one Lua script does in Redis. The simulator's store is this one
(`yak.sim.store`), and `tests/integration/store` compares the Lua scripts with it.
"""
