"""The embedded cloud: Google's APIs for Flex-start endpoints on loopback, and hosts that boot.

A package of its own beside :mod:`tpuflex`, of which it takes the error tree and nothing else: a
second, independent reading of the APIs that tpuflex's clients read (docs/architecture.md).
"""
