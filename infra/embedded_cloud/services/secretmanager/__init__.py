"""Secret Manager API v1."""
