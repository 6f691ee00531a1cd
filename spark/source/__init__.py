"""`format("yak")`: topics as Spark tables, batch and streaming, read and written, with no jar.

`options.py` reads what a user set, by the names of Spark's own Kafka source; `topics.py` asks the cluster which partitions
and offsets that means; `ranges.py` cuts them into tasks. `batch.py` and `stream.py` are Spark's two readers, `write.py` its
two writers. `data_source.py` is the class that Spark is given; it alone is pickled by name, so executors need the package.
"""
