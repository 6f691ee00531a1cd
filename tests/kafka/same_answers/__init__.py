"""The same requests to Apache Kafka and to YAK, and the answers that differ: `python -m tests.kafka.same_answers`."""
