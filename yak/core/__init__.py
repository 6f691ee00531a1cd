"""What every room of the broker builds on: its context, the events and effects of a step, jobs, timers and connections to other brokers."""
