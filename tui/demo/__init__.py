"""`yak ui --demo`: a cluster and its clients in a child process, which ends with the screen, however that ends."""
