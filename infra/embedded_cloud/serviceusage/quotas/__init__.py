"""Quotas of a project's services: Service Usage API v1beta1."""
