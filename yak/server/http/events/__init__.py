"""`GET /api/events`: streams cluster events to many listeners at once.

listeners   the last events, rendered once; the listeners, their subscriptions and positions
pump        makes events of images and notices in slices, computes progress and rates, and sends, paced for Kafka's clients
stream      the HTTP answer of one listener
"""
