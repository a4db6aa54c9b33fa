"""Guesses at misspelled names."""

from collections.abc import Iterable


def similar(word: str, known: Iterable[str]) -> str:
    """Return the known name closest to a word, as a question, or ""."""
    from difflib import get_close_matches  # only mistakes should pay for it

    plain = {name.strip().lower(): name for name in known}
    close = get_close_matches(word.strip().lower(), plain, n=1)
    return f" (did you mean {plain[close[0]]}?)" if close else ""
