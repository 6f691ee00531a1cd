"""The metadata of the cluster: records, the immutable image they fold into, membership and controller decisions. No I/O."""
