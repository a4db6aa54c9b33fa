"""Active security, tried: one party changes what it sends, and the others abort or are right, or are not.

`walk` chooses what is changed, `attack` changes it in a run, by `interposer.c`. Start with `walk`.
"""
