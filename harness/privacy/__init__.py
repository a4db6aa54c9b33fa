"""What runs on the same people have spent (`ledger`), and what a release protects, recomputed (`audit`).

Imports: `releases` and below; no engine. Start with `ledger.populations`.
"""
