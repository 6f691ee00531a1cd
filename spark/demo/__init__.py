"""`yak demo spark`: this machine's metrics through YAK and Spark, with both killed on the way, and every total checked."""
