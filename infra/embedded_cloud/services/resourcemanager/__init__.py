"""Resource Manager API v1."""
