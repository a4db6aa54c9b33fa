"""Files, directories, processes and signals: what the operating system does for everything above.

Imports: `errors`. Start with `files`: directories that go away with whoever made them.
"""
