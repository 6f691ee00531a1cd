"""The Trio shell: sockets, threads, timers and Redis around the pure broker. Decides nothing about Kafka."""
