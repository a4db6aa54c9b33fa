"""The papers' published figures as data: each number in one place, with its source and its faults."""
