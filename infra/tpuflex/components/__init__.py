"""Pulumi components: the endpoint, and everything that its slice needs."""
