"""The engine for MP-SPDZ: finds a build that the user has made, compiles programs, runs its virtual machines.

Imports: `engines.engine` and below. Start with `engine`; `discovery` finds and checks a build, `compiler`
keeps compiled programs.
"""
