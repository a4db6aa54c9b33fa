"""A computation as manifests state it: program, engine, cost, hosts, and noise made ahead."""

from msgspec import UNSET, Struct, UnsetType

from fairshares.harness.bounds import ClockDifference, PartyCount, PerParty, Positive, Seconds, Size


class Preprocessing(Struct, frozen=True, kw_only=True):
    """The noise that was made ahead: its name, how often making it was begun, and its cost if it is known."""

    piece: str
    attempts: Size
    mpc_s: Seconds | UnsetType = UNSET
    sent_bytes: PerParty | UnsetType = UNSET


class HostsRun(Struct, frozen=True, kw_only=True):
    """A run on hosts, as they signed it."""

    run: str
    started: str
    source: str
    population: str | None


class EmulatedNetwork(Struct, frozen=True, kw_only=True):
    """The network between the parties of a benchmark, as it was set and as it was measured."""

    profile: str
    rtt_s: Seconds
    bandwidth_bits_per_s: Positive
    measured_rtt_s: Seconds
    measured_bandwidth_bits_per_s: Positive


class Computation(Struct, frozen=True, kw_only=True):
    """The program, the engine and the cost of a computation. Seconds that nobody measured are None.

    `parties` is there where the security model has another number of parties than its usual one.
    """

    security: str
    parties: PartyCount | UnsetType = UNSET
    engine: str
    engine_version: str
    program_hash: str
    compile_options: list[str]
    mpc_s: Seconds | None
    party_mpc_s: list[Seconds] | None
    online_s: Seconds | None
    offline_s: ClockDifference | None
    wall_s: Seconds | None
    compile_s: Seconds | None
    share_s: Seconds | None
    rounds: Size | None
    sent_bytes: PerParty
    peak_memory_bytes: PerParty
    network: EmulatedNetwork | None
    client_sent_bytes: PerParty | UnsetType = UNSET
    client_received_bytes: PerParty | UnsetType = UNSET
