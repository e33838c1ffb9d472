"""What runs on this machine in place of Google's: hosts, their docker, images and the stand-in."""
