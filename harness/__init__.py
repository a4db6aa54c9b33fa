"""From client records to differentially private results: one package per concept.

Imports go down only: cli, views, hosts, forecast, training, pipeline, privacy, releases, request, evaluation,
reweighing, postprocessing, engines, online, uploads, security_models, inputs, system, errors. Start with
`inputs`.
"""

if __name__ != "fairshares.harness":
    raise ImportError(
        "import fairshares.harness: under a second name each of its modules would be loaded twice; "
        "who started harness.hosts.agent of version 1.0 has to start fairshares.harness.hosts.agent"
    )

__version__ = "1.0.1"
