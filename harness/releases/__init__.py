"""Statistics that can be released, from a program's arguments to its result; `base` has their interface."""
