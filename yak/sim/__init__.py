"""The simulator: the shipped broker on a simulated clock, disk, network and store, driven from one queue."""
