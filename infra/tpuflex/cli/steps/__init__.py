"""The steps of the commands that take several."""
