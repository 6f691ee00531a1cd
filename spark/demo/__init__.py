"""`yak demo spark`: sends live metrics through YAK and Spark, kills both on the way, and checks every total."""
