"""What a model needs, costs and can reach on given chips: pure arithmetic over the catalog."""
