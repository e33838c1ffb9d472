"""What exists in the cloud, whose it is, and in which order it goes."""
