"""Weights from the Hub into the bucket by a machine in its region: made, watched, removed."""
