"""The report on measured runs, as HTML and as Markdown. Start with `html`."""
