"""Load for any Kafka-compatible cluster, and its measurement.

    load.py        the load's settings, and one client's result
    histogram.py   latencies in little memory, merged over clients
    topics.py      the topic under test: created, measured, divided among clients
    produce.py     one producing client: at full speed, or at a steady rate
    consume.py     one reading client
    end_to_end.py  one client that produces and reads its own records
    workload.py    the OpenMessaging Benchmark's workloads, and their consumers
    clients.py     the clients as processes, started together
    result.py      all clients' results as one, in JSON and CSV; `--assert` and `--baseline`

A client is a process: librdkafka's own threads share one interpreter lock with the Python that feeds them, so one
Python process feeds about 1.5 million records of 100 B a second on a core of 2024, and reads about 2 million.
"""
