"""π_GAP: noisy gaps between groups' mean performance values."""
