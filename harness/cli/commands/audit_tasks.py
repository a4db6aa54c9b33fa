"""The commands `noise` and `audit`: their options."""

from __future__ import annotations

from invoke import Context

from harness.cli.tasking import RELEASE_HELP, by_name


@by_name(
    help={
        "n": "how many samples, up to 100000",
        "epsilon": "the ε that each is made for, for a count that one record moves by 1",
        "delta": "the δ that each is made for; default: 2^-40 (not for the published sampler)",
        "sampler": "default, symmetric (discrete Laplace, mean 0), or published (for comparison; "
        "MP-SPDZ only)",
        "rounded": "round the published sampler's noise to integers in the computation",
        "model": RELEASE_HELP["model"],
        "out": RELEASE_HELP["out"],
        "timeout": RELEASE_HELP["timeout"],
        "json": "print noise.json, and nothing else, on standard output",
    }
)
def noise(
    _c: Context,
    n: str = "",
    epsilon: str = "",
    delta: str = "",
    sampler: str = "default",
    rounded: bool = False,
    model: str = "",
    out: str = "",
    timeout: str = "600",
    json: bool = False,
) -> None:
    """Open samples of the noise, which then protect nothing: for audits and benchmarks (π_LAP)."""
    from harness.cli.commands.noise import noise as open_noise

    open_noise(
        n=n,
        epsilon=epsilon,
        delta=delta,
        sampler=sampler,
        rounded=rounded,
        model=model,
        out=out,
        timeout=timeout,
        as_json=json,
    )


@by_name(
    help={
        "sampler": "default, symmetric or published; instead of the reference set",
        "release": "weights, weights-only, weights-of-clients, gap, gap-of-clients, confusion, "
        "confusion-of-clients, count, thresholds, thresholds-of-records or cap, or, as in active models, "
        "weights-of-clients-active, confusion-of-clients-active, gap-of-clients-active or "
        "thresholds-of-clients-active; instead of a sampler",
        "epsilon": "the ε that the noise is made for; default: 1",
        "delta": "the δ that it is made for; default: 2^-40 (not for the published sampler)",
        "sensitivity": "of a sampler: by how much a count may move, up to 64; default: 1",
        "groups": "of a release: how many; default: 2",
        "labels": "of a release: how many; default: 2",
        "thresholds": "of the release `thresholds`: how many; default: 1001",
        "steps": "of the release gap: how many on each side of the range's centre; default: 1000",
        "neighboring-relation": "of a release: add_or_remove_one (default), replace_one or zero_out_one",
        "cap": "of a release under zero_out_one: how many records of a client count; default: 10",
        "out": RELEASE_HELP["out"],
        "json": "print audit.json, and nothing else, on standard output",
    }
)
def audit(
    _c: Context,
    sampler: str = "",
    release: str = "",
    epsilon: str = "",
    delta: str = "",
    sensitivity: str = "",
    groups: str = "",
    labels: str = "",
    thresholds: str = "",
    steps: str = "",
    neighboring_relation: str = "",
    cap: str = "",
    out: str = "",
    json: bool = False,
) -> None:
    """Recompute what noise and releases protect, exactly: `--sampler`, `--release`, or the reference set."""
    from harness.cli.commands.audit import audit as recompute

    recompute(
        sampler=sampler,
        release=release,
        epsilon=epsilon,
        delta=delta,
        sensitivity=sensitivity,
        groups=groups,
        labels=labels,
        thresholds=thresholds,
        steps=steps,
        relation=neighboring_relation,
        cap=cap,
        target=out,
        as_json=json,
    )
