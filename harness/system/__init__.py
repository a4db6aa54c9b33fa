"""Files, directories, processes and signals: the operating system's part of everything above.

Imports: `errors`. Start with `files`, on directories that go away with their makers.
"""
