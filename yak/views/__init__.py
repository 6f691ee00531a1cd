"""Read-only views of a broker for people and metric scrapers: plain values, read between turns. No broker imports them."""
