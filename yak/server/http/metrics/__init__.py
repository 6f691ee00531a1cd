"""`GET /metrics`: what this broker does, in Prometheus' and OpenMetrics' text.

    text          families, samples and their text; ours, since prometheus-client's takes nine microseconds a sample
    requests      requests, connections, the loop, the store
    topics        what goes in and out, by topic; replication, ISR changes, elections
    partitions    offsets, sizes, who lags: one pass over all partitions
    groups        who is in a group, and how far behind it is
    process       memory, files and CPU by prometheus-client; disks
    loop_delay    how late the loop wakes
    rendering     all of it in slices of half a millisecond, once for all who ask

A label's values are names of ours, or bounded in number (`rendering.MetricsLimits`); what is beyond is left out, and
counted in `yak_metrics_truncated`.
"""
