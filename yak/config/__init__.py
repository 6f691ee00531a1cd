"""Kafka's configs: names, types, defaults, validation, documentation, and the values in force."""
