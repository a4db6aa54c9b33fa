"""The engine for MP-SPDZ, as built by the user.

Imports: `engines.engine` and below. Start with `engine`; `discovery` finds and checks a build, `compiler`
keeps compiled programs.
"""
