"""Cloud TPU API, v2alpha1 and v2: queued resources, nodes, operations; v1 read-only."""
