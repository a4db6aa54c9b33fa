"""Public reasons to leave an upload out of a run."""

UNREADABLE = "unreadable or of another version"
WRONG_SIZE = "longer or shorter than an envelope of the task"
TOO_LARGE = "larger than a file of the task's envelopes may be"
CHANGED = "changed since it was shared"
UNCOVERED = "whose client's policy does not cover this run"
COUNTED = "that an earlier run counted"
NOT_THE_SAME = "not the same at every party"
OTHER_TASK = "of another task"
OTHER_KEY = "sealed for a key that this party does not have"
UNOPENED = "that the party's key does not open"

# The party lies, the client sent it something else, or runs were charged to its ledger alone.
SAYS = " (says party {party} alone)"

# The reasons that one party alone can have.
UNSOUND = (
    UNREADABLE,
    WRONG_SIZE,
    TOO_LARGE,
    CHANGED,
    UNCOVERED,
    COUNTED,
    OTHER_TASK,
    OTHER_KEY,
    UNOPENED,
)
