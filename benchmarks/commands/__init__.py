"""What the commands `bench.*` and `reproduce` do."""
