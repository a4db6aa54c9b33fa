"""Which model may run which protocol on which input form: the rule for active models, over all of them."""

from itertools import product
from pathlib import Path

import pytest

from fairshares.harness.engines.execution import PROGRAMS, MadeUpJob, PrivateJob, ValueFiles
from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.errors import UnsupportedError
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.spec import (
    CLIENTS,
    NO_INPUT,
    PI_LAP,
    PRODUCT,
    REPLICATED,
    SHARES,
    SPLIT,
    InputForm,
    ProtocolSpec,
)

pytestmark = pytest.mark.usefixtures("in_shell")

FORMS = {
    f"{form.name} by {path.name}": form.by(path)
    for spec in PROTOCOLS.values()
    for form in spec.input_forms.values()
    for path in (SHARES, CLIENTS, REPLICATED)
}


class Everywhere(MpSpdzEngine):
    """An engine that has every model; `missing` is what it says of all of them instead."""

    name = "everywhere"

    def __init__(self, missing: str | None = None) -> None:
        self.missing = missing

    def availability(self, model: SecurityModel) -> str | None:
        return self.missing and f"{model.name}: {self.missing}"

    def fault_of_links(self, _model: SecurityModel) -> None:
        """Have machines that ask for certificates."""


def allowed(spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> bool:
    """The rule, written out: no product of plain client shares where a party may deviate."""
    plain = form.name == "product" and form.path.name == "shares"
    plain = plain or (spec.name == "pi_count" and form.path.name == "shares")  # pi_cap is of bits
    known = form.name in spec.input_forms and form.path in spec.input_paths
    able = form.path is not REPLICATED or model.name in ("ps-rep-ring", "rep4-ring")
    able = able and not (form.path is CLIENTS and model.name in ("shamir", "malicious-shamir"))
    able = able and not (spec.name == "pi_roc_records" and model.name == "malicious-shamir")
    return known and able and not (model.adversary == "active" and plain)


def test_rule_over_all_models_and_forms() -> None:
    for spec, model, form in product(PROTOCOLS.values(), MODELS.values(), FORMS.values()):
        reason = Everywhere().supports(spec, model, form)
        assert (reason is None) == allowed(spec, model, form), (spec.name, model.name, form)
        assert reason is None or form.name in reason or form.path.name in reason or spec.name in reason


@pytest.mark.parametrize("name", ["spdz2k", "sy-rep-ring", "ps-rep-ring", "rep4-ring"])
def test_the_refusal_says_why_and_names_the_option(name: str) -> None:
    reason = Everywhere().supports(PI_RW, MODELS[name], PRODUCT)
    paths = "clients or replicated" if MODELS[name].replicated else "clients"
    assert name in str(reason) and f"--input-path {paths}, --input-form split" in str(reason)
    assert Everywhere().supports(PI_RW, MODELS[name], PRODUCT.by(CLIENTS)) is None


def test_a_form_or_path_that_the_protocol_or_the_engine_does_not_have_is_named_with_those_it_has() -> None:
    for spec, form, has in (
        (PI_LAP, SPLIT, "choose none"),
        (PI_RW, NO_INPUT, "choose split or product"),
        (PI_LAP, NO_INPUT.by(CLIENTS), "use --input-path shares"),
    ):
        assert has in str(Everywhere().supports(spec, MODELS["ring"], form))
    assert "needs MP-SPDZ" in str(EmbeddedEngine().supports(PI_RW, MODELS["mpyc"], SPLIT.by(CLIENTS)))
    in_a_field = str(Everywhere().supports(PI_RW, MODELS["shamir"], SPLIT.by(CLIENTS)))
    assert "shamir computes modulo a prime, and takes no values by input path 'clients'" in in_a_field
    assert "use --input-path shares, or one of the models semi2k, ring, spdz2k" in in_a_field


def test_an_unsound_combination_is_refused_as_such_even_if_the_model_is_missing() -> None:
    nowhere = Everywhere("MP-SPDZ is not here.")
    assert nowhere.supports(PI_RW, MODELS["ring"], SPLIT) == "ring: MP-SPDZ is not here."
    assert "multiplies" in (nowhere.supports(PI_RW, MODELS["spdz2k"], PRODUCT) or "")


def test_specs_say_of_their_forms_what_the_rule_needs() -> None:
    """A form that is summed before the run cannot be multiplied in it; only `product` is."""
    for form in FORMS.values():
        assert form.multiplies_client_values == (form.name == "product")
        assert not (form.multiplies_client_values and form.summed_by_party)


def test_models() -> None:
    """Parties, corruptions, adversary and security of each; no colluding majority is claimed."""
    rows = {
        (m.name, m.engine, m.parties, m.corruptions, m.adversary, m.ring.name, m.statistical_security_bits)
        for m in MODELS.values()
    }
    assert rows == {
        ("semi2k", "mp-spdz", 2, 1, "passive", "ring64", None),
        ("ring", "mp-spdz", 3, 1, "passive", "ring64", None),
        ("spdz2k", "mp-spdz", 2, 1, "active", "ring64", 40),
        ("sy-rep-ring", "mp-spdz", 3, 1, "active", "ring64", None),
        ("ps-rep-ring", "mp-spdz", 3, 1, "active", "ring64", 40),
        ("rep4-ring", "mp-spdz", 4, 1, "active", "ring64", None),
        ("shamir", "mp-spdz", 3, 1, "passive", "field127", 127),
        ("malicious-shamir", "mp-spdz", 3, 1, "active", "field127", 40),
        ("mpyc", "embedded", 3, 1, "passive", "field127", 61),
    }
    assert all(m.active == (m.adversary == "active") for m in MODELS.values())
    assert {m.name for m in MODELS.values() if m.tolerates == "active"} == {
        "spdz2k",
        "ps-rep-ring",
        "rep4-ring",
        "malicious-shamir",
    }
    without_majority = [
        m for m in MODELS.values() if m.engine == "mp-spdz" and 2 * m.corruptions >= m.parties
    ]
    assert without_majority and all("-e" in m.run_options for m in without_majority), (
        "it would send in the clear"
    )
    # SPDZ2k's MAC check fails with probability (s + 1) 2^-s at most.
    (s,) = MODELS["spdz2k"].run_options[-1:]
    assert MODELS["spdz2k"].run_options[-2] == "-SP"
    assert int(s) + 1 <= 2 ** (int(s) - 40)


@pytest.mark.parametrize(
    ("name", "lanes", "batch"),
    [
        ("spdz2k", 4, 300),
        ("spdz2k", 200, 800),
        ("spdz2k", 10**6, 10_000),
        ("semi2k", 4, 1000),
        ("semi2k", 2000, 8000),
        ("ring", 4, 50_000),
        ("sy-rep-ring", 4, 50_000),
    ],
)
def test_batches_grow_with_the_noise_within_bounds(name: str, lanes: int, batch: int) -> None:
    assert MODELS[name].batch(lanes) == batch
    assert MODELS[name].batch(0) is None
    assert MODELS["mpyc"].batch(lanes) is None


@pytest.mark.parametrize(
    ("spec", "arguments", "widths"),
    [
        (PROTOCOLS["pi_lap"], ("3", "2", "1", "40"), [59]),
        (PROTOCOLS["pi_lap"], ("3", "2", "1/3", "60"), [63, 26]),
        (PROTOCOLS["pi_cap"], ("3", "8", "63", "4", "2", "1/4", "60"), [63, 63, 4]),
    ],
    ids=lambda value: value.name if isinstance(value, ProtocolSpec) else "",
)
def test_noise_takes_all_bits_of_its_coins(
    spec: ProtocolSpec, arguments: tuple[str, ...], widths: list[int]
) -> None:
    """Too few are as many as are random: what reads them takes zeros for the others."""

    def job(*drawn: tuple[int, int]) -> MadeUpJob:
        return MadeUpJob(spec, PROGRAMS / f"{spec.name}.mpc", arguments, fair_bits=drawn)

    whole = [(width, 2) for width in widths]
    job(*whole).check_parties(MODELS["ring"])
    fewer = [(width - 1, lanes) for width, lanes in whole]
    uneven = [(width, lanes + i) for i, (width, lanes) in enumerate(whole)]
    for wrong in (
        [*whole, (1, 2)],
        *[drawn_bits for drawn_bits in (fewer, whole[1:], uneven) if drawn_bits != whole],
    ):
        with pytest.raises(UnsupportedError, match="other numbers of random bits than its noise takes"):
            job(*wrong).check_parties(MODELS["ring"])


@pytest.mark.parametrize(("parties", "inputs"), [("2", 3), ("3", 2), ("4", 3)])
def test_noise_comes_from_all_parties(parties: str, inputs: int) -> None:
    job = PrivateJob(
        PI_LAP,
        PROGRAMS / "pi_lap.mpc",
        (parties, "2", "1", "40"),
        ValueFiles((Path(),) * inputs),
        fair_bits=((59, 2),),
    )
    with pytest.raises(
        UnsupportedError, match=f"(laid out for {parties}|given inputs of {inputs}) parties; model"
    ):
        job.check_parties(MODELS["ring"])
