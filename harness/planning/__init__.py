"""What a run would cost, and how far off its result would be, before anything is run."""
