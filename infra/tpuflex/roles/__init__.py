"""What commands need to be allowed to do, as data, and the custom roles that follow from it."""
