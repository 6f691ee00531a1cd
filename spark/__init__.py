"""Analytics on Spark live here; there are none yet."""
