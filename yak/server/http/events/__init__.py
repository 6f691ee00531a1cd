"""`GET /api/events`: what happens in the cluster, told to many listeners at once.

gathering   takes note of new images and notices, and turns them into events, a few at a time
ring        the last events, rendered once, by number
figures     progress of offsets and rates, looked at once for all
listeners   who listens, what for, and how far each is
pump        the one task that sends, paced so that Kafka's clients do not notice
"""
