"""From client records to differentially private results: one package per concept.

Imports go down only: cli, views, hosts, pipeline and forecast, privacy, releases, evaluation, postprocessing,
engines, clients, inputs, system. Start with `inputs`, then `releases` and `pipeline.run`.
"""

__version__ = "0.9.0"
