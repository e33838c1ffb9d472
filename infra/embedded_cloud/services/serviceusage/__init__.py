"""Service Usage API v1."""
