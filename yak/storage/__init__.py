"""Kafka's files on disk: segments, indexes, logs, recovery, retention, producer state, checkpoints."""
