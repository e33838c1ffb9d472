"""Cloud Logging v2: entries are written, listed, and read as they are received."""
