"""Spark sessions for YAK: Java, settings, log, progress and errors. Nothing here imports PySpark before it is used."""
