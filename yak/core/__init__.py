"""What every room of the broker builds on: its context, the events and effects of a step, jobs, timers,
connections to other brokers, and channels of requests over them."""
