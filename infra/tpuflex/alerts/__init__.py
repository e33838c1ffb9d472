"""When somebody has to look at an endpoint: rules as data, judged over looks, and in PromQL."""
