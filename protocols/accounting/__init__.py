"""Privacy as arithmetic: what a record changes, the noise for it, and the guarantee."""
