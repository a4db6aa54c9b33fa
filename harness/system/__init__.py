"""Files, directories, processes and signals. Imports: `errors`. Start with `files`."""
