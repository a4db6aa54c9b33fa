"""What runs on the same people have spent (`ledger`), what a release says of that (`statement`), and what it
protects, recomputed (`audit`).

Imports: `releases` and below; no engine. Start with `ledger.populations`.
"""
