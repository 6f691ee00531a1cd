"""Local clusters: an embedded Redis server and brokers as child processes."""
