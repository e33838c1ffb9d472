"""Cloud Monitoring v3: metrics, their time series, alert policies and notification channels.

Nothing evaluates a policy: no incident is opened, and nobody is notified.
"""
