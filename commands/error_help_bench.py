"""`yak help SLUG` for benchmarks."""

from yak.commands.error_explanation import Explanation, explain

BENCH: dict[str, Explanation] = {
    "bench-brokers": explain(
        "The cluster has fewer brokers than the benchmark's topics want replicas.",
        "bench replication and bench failover measure three replicas.",
        "yak up -d --brokers 3",
    ),
    "bench-client": explain(
        "A process of the benchmark ended before its time.",
        "It was killed, or could not use the client library.",
        "run it again with --clients 1",
    ),
    "bench-empty": explain(
        "There is nothing to read for the benchmark.",
        "bench consume reads a topic that an earlier run, or you, filled.",
        "yak bench produce --topic TOPIC",
    ),
    "bench-errors": explain(
        "Records of the benchmark failed.",
        "Figures of a run with errors would be of no use.",
        "yak doctor",
    ),
    "bench-failover-stuck": explain(
        "The cluster did not get over the end of a broker in two minutes.",
        "Some partition takes no writes, or a broker that was started again is not in sync.",
        "look into the brokers' logs",
        "yak isr --watch",
    ),
    "bench-own-cluster": explain(
        "bench failover was given a cluster.",
        "It kills brokers, and only those it started itself.",
        "yak bench failover",
    ),
    "bench-partitions": explain(
        "The benchmark's topic is there with another number of partitions.",
        "A benchmark never changes a topic that exists.",
        "choose another --topic, or delete this one",
    ),
    "bench-read-back": explain(
        "What the benchmark wrote could not be read to its end.",
        "A partition has no leader, or its log breaks off.",
        "yak isr",
        "yak log TOPIC",
    ),
    "bench-size": explain(
        "Records of this size are too small for an end-to-end benchmark.",
        "Each one carries who sent it and when.",
        "yak bench e2e --size 64",
    ),
    "bench-stop": explain(
        "A broker did not end within 30 seconds of SIGTERM and was killed.",
        "An orderly stop hands leaderships over and closes the logs.",
        "look into the broker's log",
    ),
    "bench-topic": explain(
        "The replicas of a new topic of the benchmark were not in sync in time.",
        "A broker is down or too slow.",
        "yak isr --under-replicated",
    ),
    "records-lost": explain(
        "After all kills not every acknowledged record was there once, in its place and in order.",
        "That must not happen with acks=all, three replicas and min.insync.replicas=2.",
        "keep the output and the brokers' logs, and report it",
    ),
}
