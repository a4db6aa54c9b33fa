"""Emulated networks on one machine. Imports: `system`. Start with `profiles`."""
