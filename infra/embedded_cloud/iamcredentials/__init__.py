"""Service Account Credentials v1: tokens of one account for another that may act as it."""
