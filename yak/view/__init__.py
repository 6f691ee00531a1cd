"""The state of the cluster under the same names on the command line, in the terminal UI, HTTP and metrics. Pure values.

broker_state         a broker's state
error_lines          an error for people
formats              numbers, sizes, rates and durations as text
groups               a group, its members, and its lag in records and in time
lag                  lag in records, of groups and of replicas
metadata_sentences   records of the metadata log as sentences
partition_replicas   a partition and its replicas
partition_state      a partition's state, the conditions of Kafka's tools that it fulfils, and counts by broker
"""
