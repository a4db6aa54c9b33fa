"""The engine for MP-SPDZ: finds a build that the user has made, compiles programs, runs its virtual machines.

Imports: `engines.base`, `engines.parties`, `engines.network`. Start with `engine`.
"""
