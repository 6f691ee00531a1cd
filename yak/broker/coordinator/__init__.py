"""The coordinator of groups: each broker is that of the groups whose partition of `__consumer_offsets` it leads."""
