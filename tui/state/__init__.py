"""What is known of the cluster, folded from what it tells. Pure: no clock, no Textual."""
