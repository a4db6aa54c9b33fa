"""What is asked for: a release as one value, each of its fields declared and read once."""
