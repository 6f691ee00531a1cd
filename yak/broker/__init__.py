"""The broker without I/O of its own: `Broker.step(event, now_ms)` changes state, appends to logs, and returns effects."""
