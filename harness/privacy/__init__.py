"""The ledger of spent privacy, the statement of a release, and the audit that recomputes guarantees.

Imports: `releases` and below; no engine. Start with `ledger.populations`.
"""
