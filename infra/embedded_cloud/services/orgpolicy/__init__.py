"""Organization Policy API v2."""
