"""What the cluster is like, in one set of words for command line, terminal UI, HTTP and metrics. Pure values.

formats              numbers, sizes, rates and durations as text
partition_state      a partition's state, and the conditions of Kafka's tools that it fulfils
metadata_sentences   records of the metadata log as sentences
"""
