"""`GET /api/events`: streams cluster events to many listeners at once.

event_queue queues new images and notices, and turns them into events in slices
ring        the last events, rendered once, by number
figures     offset progress and rates, computed once for all listeners
listeners   the listeners, their subscriptions and positions
pump        the one task that sends, paced so that Kafka clients are not delayed
"""
