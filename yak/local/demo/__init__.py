"""`yak demo`: real data from several clients, one `kill -9`, and a count of every acknowledged record."""
