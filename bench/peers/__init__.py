"""Headgate beside its peers: each run as its users would run it at its best, all in one run on one machine."""
