"""`GET /api/events`: streams cluster events to many listeners at once.

ring        the last events, rendered once, by number
figures     offset progress and rates, computed once for all listeners
listeners   the listeners, their subscriptions and positions
pump        queues new images and notices, makes events of them in slices, and sends, paced for Kafka's clients
"""
