"""The operating system's files, directories, processes and signals. Imports: `errors`. Start with `files`."""
