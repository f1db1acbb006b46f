"""Handlers that write to a study, or create one: they respond when the change is on disk."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request

from causalbandits.campaign import Decision
from causalbandits.errors import ConflictError, StateError, unknown_name_message
from causalbandits.policies import policy
from causalbandits.problem import Budget, Problem
from causalbandits.service.group_commit import Writer
from causalbandits.service.http import (
    DECODE_ERRORS,
    MAX_ITEMS,
    RequestError,
    ServiceContext,
    parse_decision_id,
)
from causalbandits.service.schemas import (
    AskRequest,
    CorrectRequest,
    CreateStudyRequest,
    DecisionResponse,
    DecisionsResponse,
    ExpireResponse,
    ModesResponse,
    OutcomeItem,
    OutcomeResponse,
    OutcomesResponse,
    PolicyResponse,
    RawTellRequest,
    SetModeRequest,
    SetPolicyRequest,
    StatusResponse,
    StudyResponse,
)
from causalbandits.study import MODES, Receipt, Study

MAX_STUDY_NAME_LENGTH = 100
RESERVED_NAMES = ("login", "static", "v1", "livez", "readyz", "metrics", "openapi")
"""Paths of other routes."""

NEW_STUDY_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""The name of a study that is created over HTTP, which becomes a file's: it cannot lead out of the directory."""


def validate_study_name(name: str) -> None:
    """Raise an error if a study cannot be served by this name."""
    if name in RESERVED_NAMES or len(name) > MAX_STUDY_NAME_LENGTH or not name.isprintable():
        raise StateError(
            "A study is served by its file's name, which must be printable, of "
            f"{MAX_STUDY_NAME_LENGTH} characters at most, and none of {', '.join(RESERVED_NAMES)}; got {name!r:.60}."
        )


def create_study(directory: Path, request: CreateStudyRequest) -> Study:
    """A new study in a directory."""
    if not NEW_STUDY_NAME.fullmatch(request.name):
        raise StateError(
            "A study's name has small letters, digits, - and _, 64 at most, a letter or digit first; got "
            f"{request.name!r:.60}."
        )
    validate_study_name(request.name)
    file = directory / f"{request.name}.db"
    if file.exists():
        raise ConflictError(f"There is a study named {request.name!r} already.")
    resolved_policy = None if request.policy is None else policy(request.policy, **request.parameters)
    return Study.create(
        file,
        Problem.from_record(request.problem),
        resolved_policy,
        horizon=request.horizon,
        seed=request.seed,
        window=request.window,
        default=request.default,
        late=request.late,
        impossible=request.impossible,
        budget=None if request.budget is None else Budget(*request.budget),
        hold=request.hold,
        floor=request.floor,
    )


async def ask(writer: Writer, request: Request, body: AskRequest) -> DecisionResponse | DecisionsResponse:
    """Ask for a decision, or for `n`, in `items`. With a `key`, asking again gives the same."""
    arguments: dict[str, Any] = {"context": body.context, "eligible": body.eligible, "key": body.key}
    n = body.n
    if n is not None and not 1 <= n <= MAX_ITEMS:
        raise RequestError(413 if n > 0 else 422, f"From 1 to {MAX_ITEMS} decisions can be asked for at once; got {n}.")

    def work(study: Study) -> DecisionResponse | DecisionsResponse:
        if n is None:
            return _decision_response(study, study.ask(**arguments))
        return DecisionsResponse([_decision_response(study, decision) for decision in study.ask(n, **arguments)])

    return await writer.submit(work)


def _decision_response(study: Study, decision: Decision) -> DecisionResponse:
    values: dict[str, Any] = dict(decision.intervention)
    due = None if study.rules.window is None else study.due(decision.id)
    return DecisionResponse(decision.id, values, decision.propensity, due)


async def tell(writer: Writer, request: Request, body: RawTellRequest) -> OutcomesResponse:
    """Tell outcomes.

    Each has a status: applied, incomplete, held, duplicate, early, late, conflict, unknown, refused.
    """
    if len(body.items) > MAX_ITEMS:
        raise RequestError(413, f"{MAX_ITEMS} outcomes at most can be told at once; got {len(body.items)}.")
    items = [_decode_outcome(item) for item in body.items]
    valid_items = [item for item in items if isinstance(item, dict)]
    valid_receipts = await writer.submit(lambda study: study.tell_many(valid_items))
    writer.duplicates += sum(item.status == "duplicate" for item in valid_receipts)
    remaining = iter(valid_receipts)
    receipts = [next(remaining) if isinstance(item, dict) else item for item in items]
    return OutcomesResponse([_outcome_response(receipt) for receipt in receipts])


def _outcome_response(receipt: Receipt) -> OutcomeResponse:
    return OutcomeResponse(receipt.status, receipt.why, list(receipt.missing))


def _decode_outcome(raw: msgspec.Raw) -> dict[str, Any] | Receipt:
    """An outcome, or the receipt of one that cannot be decoded."""
    try:
        return msgspec.structs.asdict(msgspec.json.decode(raw, type=OutcomeItem))
    except DECODE_ERRORS as error:
        return Receipt("refused", str(error))


async def correct(writer: Writer, request: Request, body: CorrectRequest) -> OutcomeResponse:
    """Another outcome than the one that was told."""
    decision_id = parse_decision_id(request)

    def work(study: Study) -> Any:
        return study.correct(study.id_of(*decision_id), body.parents, body.reward, observed=body.observed)

    return _outcome_response(await writer.submit(work))


async def retract(writer: Writer, request: Request) -> StatusResponse:
    """Take back what was told: the decision waits for its outcome again."""
    decision_id = parse_decision_id(request)
    await writer.submit(lambda study: study.retract(study.id_of(*decision_id)))
    return StatusResponse("applied")


async def forget(writer: Writer, request: Request) -> StatusResponse:
    """Stop waiting for an outcome: the decision was not carried out."""
    decision_id = parse_decision_id(request)
    await writer.submit(lambda study: study.forget(study.id_of(*decision_id)))
    return StatusResponse("applied")


async def expire(writer: Writer, request: Request) -> ExpireResponse:
    """Take the silence of decisions whose window has passed for the default outcome."""
    return ExpireResponse(await writer.submit(lambda study: study.expire()))


async def set_mode(writer: Writer, request: Request, body: SetModeRequest) -> ModesResponse:
    """How decisions come about from now on; logged with the key's name."""
    if body.mode not in MODES:
        raise RequestError(422, unknown_name_message("mode", body.mode, MODES), "StudyModeError")
    by = request.state.key.name

    def work(study: Study) -> Any:
        study.set_mode(body.mode, baseline=body.baseline, by=by, why=body.why)  # type: ignore[arg-type]
        return study.modes()

    return ModesResponse(await writer.submit(work))


async def use(writer: Writer, request: Request, body: SetPolicyRequest) -> PolicyResponse:
    """Another policy decides from now on; it starts with all that was learnt."""
    new_policy = policy(body.policy, **body.parameters)
    await writer.submit(lambda study: study.use(new_policy))
    return PolicyResponse(str(new_policy))


async def create(context: ServiceContext, request: Request, body: CreateStudyRequest) -> StudyResponse:
    """Make a study, in the directory that the service was started with."""
    if context.directory is None:
        raise RequestError(403, "This service makes no studies: causalbandits serve --directory DIRECTORY does.")
    if not request.state.key.opens(None):
        raise RequestError(403, "Your key is for some studies: it makes no others.")
    if body.name in context.writers:
        raise RequestError(409, f"There is a study named {body.name!r:.80} already.")
    study = await asyncio.to_thread(create_study, context.directory, body)
    context.writers[body.name] = Writer(study)
    return StudyResponse(body.name)
