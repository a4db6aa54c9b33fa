"""What each protocol is, independent of any engine."""
