"""Commands, in one module per subject: they read options, call the pipeline and show results."""
