"""Cloud Monitoring: the time series that hosts write, and what is made of them."""
