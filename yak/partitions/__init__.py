"""The partitions that this broker has a replica of: their logs are created, taken offline, repaired and removed.

Other packages call `local_replicas.LocalReplicas` and `offline_replicas.OfflineReplicas`. This package imports nothing of
`yak.broker` and `yak.coordination`.
"""
