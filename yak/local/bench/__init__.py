"""Benchmarks of replication and failover, which end and restart brokers.

    fleet.py          a cluster whose brokers may be killed, paused, stopped and restarted
    pauses.py         the longest pauses, from the times of the acknowledgements
    ledger_load.py    a writer and a reader process that note every record and its time
    failover.py       kill, wait and restart brokers repeatedly
    failover_result.py the result: pauses, lost records, JSON
    catch_up.py       the return of a follower that missed a gigabyte, and its cost for the clients
    replication.py    the cost of replication: rates, CPU, latency, idle partitions, catch-up

A fleet may be YAK's or Apache Kafka's (`benchmarks/versus`).
"""
