"""What people read of a result: tables, sentences and pictures, for terminals and pages.

Imports: `postprocessing`, `releases` and below. Start with `weights`.
"""
