"""The confidence of all intervals that results state."""

from fractions import Fraction

CONFIDENCE = Fraction(95, 100)
