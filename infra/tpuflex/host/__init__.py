"""What a host says of itself in guest attributes, and the wait until it serves. Pure: no I/O."""
