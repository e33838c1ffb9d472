"""What `tpuflex doctor` examines: functions from what was read to checks. Nothing is changed."""
