"""What a request for a slice is: its inputs, its wire form, its states. Pure: no I/O, no clock."""
