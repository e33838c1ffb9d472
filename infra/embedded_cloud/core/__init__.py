"""What every service is made of, and what knows no service: clock, store, routing, contract."""
