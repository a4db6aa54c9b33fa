"""π_CF: a noisy confusion matrix per group."""
