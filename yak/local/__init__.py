"""Clusters on this machine: embedded Redis, child brokers."""
