"""Where a model comes from, its manifest, and its buckets."""
