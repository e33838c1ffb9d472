"""One process in front of endpoints: an address that outlives every slice."""
