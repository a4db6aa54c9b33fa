"""Active security, tried: one party changes its messages, and the others should abort or be right.

`walk` chooses changes, and `attack` makes one in a run, by `interposer.c`. Start with `walk`.
"""
