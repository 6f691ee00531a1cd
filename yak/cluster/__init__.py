"""The cluster's metadata: records, the immutable image, broker lifecycle and controller decisions. No I/O."""
