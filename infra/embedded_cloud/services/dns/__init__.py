"""Cloud DNS API v1."""
