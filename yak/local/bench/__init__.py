"""Benchmarks of replication and failover, which end and restart brokers.

    fleet.py          a cluster whose brokers may be killed, paused, stopped and restarted
    ledger_load.py    a writer and a reader process that note every record and its time
    failover.py       kill, wait and restart brokers repeatedly: pauses, lost records, JSON
    replication.py    the cost of replication: rates, CPU, latency, idle partitions, a follower's catch-up

A fleet may be YAK's or Apache Kafka's (`benchmarks/versus`).
"""
