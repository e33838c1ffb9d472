"""The embedded cloud: Google's APIs for Flex-start endpoints on loopback, and hosts that boot.

A package of its own beside :mod:`tpuflex`: a second, independent reading of the APIs that tpuflex's
clients read (docs/architecture.md). contributing/SERVICE.md lists its parts.
"""
