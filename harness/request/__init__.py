"""Requests: a release as one value, whose fields are each declared and read once."""
