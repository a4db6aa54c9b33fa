"""What clients who send to a run are told, and agree with: all that decides what is opened of them."""

from collections.abc import Mapping
from typing import Any

from harness.errors import OptionError, ShareError
from harness.inputs.record_schema import RecordDomain, domain_from_json
from harness.request.base import Request
from harness.request.releases import request_from_json
from harness.system.documents import Refusal
from protocols.spec import CLIENTS


def terms_of(request: Request, domain: RecordDomain) -> dict[str, Any]:
    """Return what clients are told. Raises: OptionError: the request protects nobody in this domain."""
    told = request.but(neighboring_relation=request.relation_in(domain), population=None)
    return {"request": told.to_json(), "domain": domain.to_json()}


def read_terms(told: Any, where: str) -> tuple[Request, RecordDomain]:
    """Return what is released by these terms, of records of which domain.

    Raises: ShareError: this version does not know such terms; RecordDomainError; `where` is named.
    """
    refusal = Refusal(ShareError, where, "for a run that this version can describe", "nothing was sent")
    if not isinstance(told, dict) or told.keys() != {"request", "domain"}:
        refusal.say("it has an unknown key, or lacks one")
    try:
        request = request_from_json(told["request"])
        if not request.online or request.model is None:
            raise KeyError(request.task)
        if request.form.path is not CLIENTS:
            raise KeyError(request.input_path)
        if request.neighboring_relation is None or request.to_json().keys() != told["request"].keys():
            refusal.say("it leaves out what a client is to agree with")
        request.program_of(request.spec)
    except (AttributeError, KeyError, TypeError, OptionError):
        refusal.say("it names others than are known here")
    return request, domain_from_json(told["domain"], where)


def request_of_run(asked: Mapping[str, Any]) -> Request:
    """Return the request that a host is asked to take part in, of whichever records there are.

    Raises: OptionError: this version does not know it, or it names no model.
    """
    request = request_from_json(asked)
    if request.model is None:
        raise OptionError(f"The run that is asked for ({request.task}) names no model.")
    return request
