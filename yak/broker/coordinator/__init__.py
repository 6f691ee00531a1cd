"""The group coordinator: a broker coordinates the groups of each `__consumer_offsets` partition that it leads."""
