"""Measuring a running endpoint: what its server counts, benchmarks and what they are worth, and the
archive from which capacity is planned.

No load generator is written here: the load comes from ``vllm bench serve``.
"""
