"""What the engine does for a stack: preparation, plan, run, teardown."""
