"""The partitions that this broker has a replica of: their logs are created, flushed, compacted, taken offline, repaired
and removed.

Other packages call `local_replicas.LocalReplicas`, `metadata_loader.MetadataLoader`, `offline_replicas.OfflineReplicas`,
`flusher.Flusher`, `log_cleaner.LogCleaner`, `maintenance.Maintenance`, `record_deletions.RecordDeletions`, `store_outage.StoreOutage` and
`high_watermark_reports.HighWatermarkReports`. This package imports nothing of `yak.broker` and `yak.coordination`.
"""
