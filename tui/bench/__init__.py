"""Benchmarks on the screen: `yak bench` as a child process, its progress, and earlier runs."""
