"""The commands, one module for those that belong together: read options, call the pipeline, show."""
