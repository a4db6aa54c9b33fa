"""Emulated networks between parties on one machine. Imports: `system`. Start with `profiles`."""
