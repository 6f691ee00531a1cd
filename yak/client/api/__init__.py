"""The Python API of `import yak`: a thin layer over librdkafka (confluent-kafka).

- `client`: `connect`, topics, and the creation of producers and consumers
- `producer`, `consumer`: the blocking ones; `inbox` buffers a consumer's records for its caller
- `serde`, `message`, `failures`, `settings`: conversion to and from bytes, received records, errors, connection
  settings
- `asynchronous/`: the same without blocking, for any event loop; `yak.aio` and `yak.trio` bring the loop

This package imports no event loop.
"""
