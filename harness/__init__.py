"""From client records to differentially private results: one package per concept.

Imports go down only: cli, views, hosts, forecast, pipeline, privacy, releases, evaluation, postprocessing,
engines, clients, security_models, inputs, system, errors. Start with `inputs`.
"""

__version__ = "0.9.0"
