"""All programs: the programs of the releases, and programs that no release has for its own."""

from fairshares.harness.releases.registry import REQUESTS
from fairshares.protocols.spec import OF_NO_RELEASE, ProtocolSpec

_OF_RELEASES = tuple(spec for kind in REQUESTS.values() for spec in kind.programs().values())

PROTOCOLS: dict[str, ProtocolSpec] = {spec.name: spec for spec in (*_OF_RELEASES, *OF_NO_RELEASE)}
