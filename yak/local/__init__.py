"""Local clusters: brokers, and the Redis of those without a metadata quorum, as child processes."""
