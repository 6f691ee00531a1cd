"""Benchmarks that end brokers: failover, and the return of a follower.

    fleet.py          a cluster whose brokers may be killed, paused, stopped and started again
    pauses.py         how long nothing was acknowledged, from the times of the acknowledgements
    ledger_load.py    a writer and a reader, each a process, that note what they were told and when
    failover.py       kill, wait, restart, again and again
    failover_result.py what came of it: pauses, verdict, JSON
    catch_up.py       a follower that missed a gigabyte, and what its return costs the clients
    replication.py    what replication costs: rates, CPU, latency, idle partitions, catch-up

Nothing here knows YAK: a fleet may as well be Apache Kafka's (`tests/bench/versus`).
"""
