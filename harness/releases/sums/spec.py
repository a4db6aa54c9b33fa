"""The program of a sum of vectors that clients upload: π_ROUNDS, of a single round."""

from dataclasses import replace

from fairshares.protocols.spec import PI_ROUNDS, SPLIT, EachColumn

VECTORS = replace(
    SPLIT,
    public=(
        "length, clipping norm, largest weight and grid of vectors",
        "number of reveals",
        "number of clients",
        "number of uploads",
    ),
)

PI_ROUNDS_OF_UPLOADS = replace(
    PI_ROUNDS,
    input_forms={VECTORS.name: VECTORS},
    revealed=(
        "the noisy sum of the clients' vectors, to all parties: one of the reveals that their task declares, "
        "which have this loss together",
    ),
    release=EachColumn(lambda arguments: int(arguments["coordinates"])),
)

SPECS = (PI_ROUNDS_OF_UPLOADS,)
