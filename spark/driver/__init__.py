"""Spark sessions for YAK: Java, settings, log, progress and errors. No module imports PySpark before it is used."""
