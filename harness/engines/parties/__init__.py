"""The processes of a run, one per party, started, watched and ended alike for every engine.

Imports: `engines.base`, `engines.output_parser`, `clients`, `inputs`, `system`. Start with `supervisor`;
`main` is a party's process.
"""
