"""Cloud Storage, JSON API v1."""
