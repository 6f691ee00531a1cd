"""Benchmarks on the screen: `yak bench` as a child process, what it tells, and the runs so far."""
