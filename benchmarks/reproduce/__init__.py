"""Published tables and figures, computed again and set beside what the papers print."""
