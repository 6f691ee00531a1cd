"""Load for the HTTP benches: a client of many connections, listeners, and Kafka producers, each in a process of its own."""
