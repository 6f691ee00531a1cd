"""The Python API: what `import yak` gives, thin over librdkafka (confluent-kafka).

- `client`: `connect`, topics, and the way to producers and consumers
- `producer`, `consumer`: the blocking ones; `inbox` is what a consumer holds between broker and caller
- `serde`, `message`, `failures`, `settings`: values to bytes and back, what comes back, what can go wrong, who is asked
- `asynchronous/`: the same without blocking, for any event loop; `yak.aio` and `yak.trio` bring the loop

No event loop is imported here.
"""
