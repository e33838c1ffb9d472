"""Pulumi's plugin protocol, as far as a resource provider in Python needs it.

A package of its own: the tpuflex provider and the embedded cloud's stand-in for the gcp plugin
both serve it, and it knows neither.
"""
