"""Pure calculators over catalog and settings."""
