"""What emulated hosts run in place of an image for TPUs: a server that computes nothing."""
