"""The report on measured runs, as HTML. Start with `html`."""
