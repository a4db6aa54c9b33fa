"""Emulated networks between the parties of a measured run on one machine. Start with `links`."""
