"""`make prove-on-google`: a first run on Google that costs little, ends, and leaves evidence."""
