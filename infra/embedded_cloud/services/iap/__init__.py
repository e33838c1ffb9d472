"""Identity-Aware Proxy's TCP forwarding, as gcloud's own client speaks it (SSH relay v4).

The way in where hosts have private addresses (``network.private_addresses``): a client connects by
HTTP `CONNECT` to ``tunnel.cloudproxy.app:443``; within it is TLS, within that a WebSocket, and
within that frames of the relay. Firewall rules and the caller's token decide what is forwarded.
"""
