"""What the cluster is like, in one set of words for command line, terminal UI, HTTP and metrics. Pure values.

formats              numbers, sizes, rates and durations as text
metadata_sentences   records of the metadata log as sentences
partition_replicas   a partition and its replicas
partition_state      a partition's state, and the conditions of Kafka's tools that it fulfils
"""
