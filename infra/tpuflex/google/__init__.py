"""Google's APIs: transport, credentials, clients."""
