"""A release as machines send it to each other, sign it, and write it into manifests."""

from typing import Annotated

from msgspec import Meta

RequestTexts = Annotated[
    dict[
        Annotated[str, Meta(pattern=r"^[a-z_]{1,64}\Z")],
        Annotated[str, Meta(max_length=1 << 16)],
    ],
    Meta(max_length=256),
]
"""The text of each field that has a value, by the field's name; `task` is the release's name.

`Request.to_json` writes it. The fields depend on the release, whose own class says which there are and what
texts they have: `registry.request_from_json` reads and checks it.
"""
