"""Cloud Logging v2: entries are written and listed."""
