"""Cloud Billing API v1."""
