"""Cloud Monitoring v1: dashboards."""
