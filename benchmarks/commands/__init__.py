"""The commands `bench.*` and `reproduce`."""
