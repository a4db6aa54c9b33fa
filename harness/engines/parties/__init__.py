"""The processes of a run, one per party, alike for every engine.

Imports: `engines.base`, `clients`, `inputs`, `system`. Start with `supervisor`.
"""
