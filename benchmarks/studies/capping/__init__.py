"""What a cap on clients' records costs and saves: errors by the cap, ways to choose it, bounds."""
