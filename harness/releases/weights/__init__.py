"""π_RW: sample weights from noisy counts."""
