"""Cloud Monitoring: time series, alert policies, notification channels and dashboards."""
