"""The numbers of parties that a run may have.

A party's process reads it before it shuts itself off, so nothing here loads a package that starts threads.
"""

MOST_PARTIES = 16  # of any model, as of a task
