"""Commands, a module per subject."""
