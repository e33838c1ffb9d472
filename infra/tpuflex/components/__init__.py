"""Pulumi components: everything an endpoint needs around its slice, and the endpoint itself."""
