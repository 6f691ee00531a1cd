"""Transactions as their coordinator keeps them: states, records and decisions. No clock and no partition.

`yak.coordination.transaction_coordinator` decides with `transaction.Transaction`, appends the result to its partition
of `__transaction_state`, and has `marker_sender.MarkerSender` write the markers to the leaders of the transaction's
partitions.
"""
