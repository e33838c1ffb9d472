"""What Google refuses, and the embedded cloud on demand: APIs, billing, quotas, permissions."""
