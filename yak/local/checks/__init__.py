"""What `yak doctor` looks at: the way to a cluster, this machine, the metadata store, the terminal."""
