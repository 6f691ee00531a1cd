"""`yak help SLUG` for benchmarks."""

from yak.commands.error_explanation import Explanation, explain

BENCH: dict[str, Explanation] = {
    "bench-brokers": explain(
        "The cluster has fewer brokers than the replication factor of the benchmark's topics.",
        "bench replication and bench failover use three replicas.",
        "yak up -d --brokers 3",
    ),
    "bench-client": explain(
        "A process of the benchmark exited early.",
        "It was killed, or could not use the client library.",
        "run it again with --clients 1",
    ),
    "bench-empty": explain(
        "The benchmark's topic has no records.",
        "bench consume reads a topic that an earlier run, or you, filled.",
        "yak bench produce --topic TOPIC",
    ),
    "bench-errors": explain(
        "Records of the benchmark failed.",
        "Results of a run with errors are not valid.",
        "yak doctor",
    ),
    "bench-failover-stuck": explain(
        "The cluster did not recover from the loss of a broker within two minutes.",
        "A partition accepts no writes, or a restarted broker is not back in the ISR.",
        "see the brokers' logs",
        "yak isr --watch",
    ),
    "bench-own-cluster": explain(
        "bench failover accepts no address of a cluster.",
        "It kills brokers, and therefore starts its own.",
        "yak bench failover",
    ),
    "bench-partitions": explain(
        "The benchmark's topic exists with another number of partitions.",
        "A benchmark does not change an existing topic.",
        "choose another --topic, or delete this one",
    ),
    "bench-read-back": explain(
        "The benchmark's records could not be read to the end.",
        "A partition has no leader, or its log is damaged.",
        "yak isr",
        "yak metadata log",
    ),
    "bench-size": explain(
        "Records of this size are too small for an end-to-end benchmark.",
        "Each record contains its sender and send time.",
        "yak bench e2e --size 64",
    ),
    "bench-stop": explain(
        "A broker did not stop within 30 seconds of SIGTERM and was killed.",
        "A controlled shutdown moves partitions to other leaders and closes the logs.",
        "see the broker's log",
    ),
    "bench-topic": explain(
        "The replicas of a new topic of the benchmark were not in sync in time.",
        "A broker is down or too slow.",
        "yak isr --under-replicated",
    ),
    "records-lost": explain(
        "After all kills, acknowledged records were lost, duplicated or reordered.",
        "That must not happen with acks=all, three replicas and min.insync.replicas=2.",
        "report it, with the output and the brokers' logs",
    ),
}
