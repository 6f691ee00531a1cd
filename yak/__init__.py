"""YAK: a replicated log broker that speaks the Apache Kafka protocol.

The map, from the ground up; imports point down only:

- `yak.ids`, `yak.errors`, `yak.limits`, `yak.config`: names for numbers, the error tree, every bound, Kafka's configs
- `yak.protocol`: bytes and messages: frames, headers, record batches, codec
- `yak.seams`: what the core asks of the world, as Protocols
- `yak.storage`: Kafka's files: segments, indexes, recovery, retention, producer state
- `yak.replication`: one partition's leader, epochs and high watermark
- `yak.cluster`: the cluster's metadata: records, image, membership, controller decisions
- `yak.groups`: groups of consumers: their protocols and records
- `yak.broker`: the pure broker: `step(event, now_ms)` gives effects; one file for each Kafka API
- `yak.server`: the Trio shell around it: sockets, threads, Redis
- `yak.sim`: the same broker under a simulated clock, disk, network and store
- `yak.client`: the Kafka client side, over librdkafka
- `yak.local`: clusters on this machine, with their own Redis
- `yak.commands`: the `yak` command line
"""

__version__ = "0.1.0"
