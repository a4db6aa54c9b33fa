"""Statistics that can be released; `base` has their interface."""
