"""The processes of a run, one per party, alike for every engine.

Imports: `engines.base`, `engines.output_parser`, `clients`, `inputs`, `system`. Start with `supervisor`.
"""
