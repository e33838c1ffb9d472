"""Weights from the Hub, or another bucket, into the bucket by a machine in its region: made,
watched, removed."""
