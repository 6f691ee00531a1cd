"""`format("yak")`: topics as Spark tables, batch and streaming, read and written, with no jar.

`options.py` parses the user's options, by the names of Spark's own Kafka source; `topics.py` resolves them to
partitions and offsets on the cluster; `ranges.py` splits these into tasks. `batch.py` and `stream.py` are Spark's two
readers, `write.py` its two writers. `data_source.py` is the class that is registered with Spark; it is pickled by name,
so executors need the package.
"""
