"""Cloud Key Management Service API v1: key rings and symmetric keys. Nothing is encrypted."""
