"""`GET /metrics`: the metrics of this broker, in Prometheus' and OpenMetrics' text formats.

    text          families, samples and their text; our own, since prometheus-client's takes nine microseconds a sample
    requests      requests, connections, the loop, the store
    topics        traffic by topic; replication, ISR changes, elections
    partitions    offsets, sizes, replica lag: one pass over all partitions
    groups        group members and lag
    process       memory, files and CPU by prometheus-client; disks
    rendering     collects everything in slices of half a millisecond, once for all scrapes

Label values are names of ours, or bounded in number (`rendering.MetricsLimits`); further ones are omitted and counted
in `yak_metrics_truncated`.
"""
