"""The processes of a run: one per party, started, watched and ended alike for every engine.

Imports: `engines.base`, `clients`, `system`. Start with `supervisor`; `main` is what a party's process runs.
"""
