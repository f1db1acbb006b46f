"""Handlers that write to a study or create one; they respond after the change is on disk."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from causalbandits._files import has_duplicate_keys
from causalbandits.campaign import Decision
from causalbandits.errors import (
    BudgetError,
    CausalBanditsError,
    ConflictError,
    InterventionError,
    PolicyError,
    StateError,
    StorageError,
    StudyModeError,
    TellError,
    UnknownDecisionError,
    collect_warnings,
    unknown_name_message,
)
from causalbandits.policies import AUTO, AnyPolicy, policy
from causalbandits.problem import SPEC_ENTRIES, Budget, Problem, SpecError, SpecTerms
from causalbandits.service.group_commit import Writer
from causalbandits.service.http import MAX_ITEMS, ServiceContext, find_decision
from causalbandits.service.problems import FieldsError, RequestError, request_terms
from causalbandits.service.request_errors import (
    DECODE_ERRORS,
    argument_errors,
    assignment_refusal,
    decision_refusal,
    decode_error,
    duplicate_key_errors,
    json_text,
    outcome_errors,
    pointer,
    summary_of,
)
from causalbandits.service.schemas import (
    AskRequest,
    CorrectRequest,
    CreateStudyRequest,
    DecisionResponse,
    DecisionsResponse,
    ExpireResponse,
    FieldError,
    JSONRecord,
    OutcomeItem,
    OutcomeResponse,
    OutcomesResponse,
    PolicyResponse,
    RawTellRequest,
    ReportChangeRequest,
    SetModeRequest,
    SetPolicyRequest,
    StatusResponse,
    StudyResponse,
)
from causalbandits.study import EXPIRY_BATCH, MODES, Receipt, Study

Result = TypeVar("Result")

MAX_STUDY_NAME_LENGTH, MAX_REMARK_LENGTH = 100, 1000
RESERVED_NAMES = ("login", "static", "v1", "livez", "readyz", "metrics", "openapi", "problems")
"""Names that are paths of other routes."""

NEW_STUDY_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""The pattern for names of studies created over HTTP: the name becomes a file name and cannot leave the directory."""


def validate_study_name(name: str) -> None:
    """Raise an error if a study cannot be served under this name."""
    if name in (*RESERVED_NAMES, ".", "..") or len(name) > MAX_STUDY_NAME_LENGTH or not name.isprintable():
        raise StateError(
            f"The name of a study's file must be printable, have at most {MAX_STUDY_NAME_LENGTH} characters, and not "
            f"be one of {', '.join(RESERVED_NAMES)}, because the service uses it as the study's name; got "
            f"{name!r:.60}."
        )


def create_study(directory: Path, request: CreateStudyRequest) -> Study:
    """Create a study in a directory."""
    if not NEW_STUDY_NAME.fullmatch(request.name) or request.name in RESERVED_NAMES:
        detail = (
            "The name of a study must have at most 64 characters from small letters, digits, - and _, begin with a "
            f"letter or digit, and not be one of {', '.join(RESERVED_NAMES)}; got {request.name!r:.60}."
        )
        raise RequestError("invalid-setting", detail, [FieldError("/name", detail)])
    file = directory / f"{request.name}.db"
    if file.exists():
        raise ConflictError(f"A study named {request.name!r} exists already. Choose another name.")
    problem = _parse_problem(request.problem)
    resolved_policy = _parse_policy(AUTO if request.policy is None else request.policy, request.parameters)
    try:
        return Study.create(
            file,
            problem,
            resolved_policy,
            horizon=request.horizon,
            seed=request.seed,
            attribution_window=request.attribution_window,
            default_reward=request.default_reward,
            late_outcomes=request.late_outcomes,
            zero_probability=request.zero_probability,
            budget=None if request.budget is None else Budget(*request.budget),
            hold_until_window=request.hold_until_window,
            min_propensity=request.min_propensity,
            holdout=request.holdout,
            baseline=request.baseline,
            changes=request.changes,
        )
    except StorageError:
        raise
    except CausalBanditsError as error:
        fields = [name for name in msgspec.structs.asdict(request) if name not in ("name", "problem")]
        kind = "invalid-budget" if isinstance(error, BudgetError) else None
        if error.path == ("baseline",) and request.baseline:
            raise assignment_refusal(problem, problem.manipulable, request.baseline, "/baseline", error) from None
        raise FieldsError(error, argument_errors(fields, error), kind) from None


class RequestTerms(SpecTerms):
    """Names of entries of a problem specification as fields of a request."""

    reads_files = False

    def example(self, entry: str, value: Any = None) -> str:
        """An example of an entry with a value."""
        example = SPEC_ENTRIES[entry].example if value is None else value
        return f"{json_text(entry)}: {json_text(example, 200)}"

    def translate(self, message: str) -> str:
        """A message about arguments of `Problem`, in terms of the request."""
        return request_terms(message)


def _parse_problem(spec: dict[str, Any]) -> Problem:
    try:
        return Problem.from_spec(spec, terms=RequestTerms())
    except SpecError as error:
        detail = request_terms(error.detail)
        raise FieldsError(
            CausalBanditsError(str(error)), [FieldError(pointer("problem", *error.path), detail)], "invalid-problem"
        ) from None
    except CausalBanditsError as error:
        errors = [FieldError(pointer("problem", *error.path), request_terms(str(error)))]
        raise FieldsError(error, errors, "invalid-problem") from None


def _parse_policy(name: str, parameters: dict[str, Any]) -> AnyPolicy:
    for field, values in (("/policy", {}), ("/parameters", parameters)):
        try:
            parsed = policy(name, **values)
        except CausalBanditsError as error:
            raise FieldsError(error, [FieldError(field, request_terms(str(error)))]) from None
    return parsed


async def ask(writer: Writer, request: Request, body: AskRequest) -> DecisionResponse | DecisionsResponse:
    """Ask for a decision, or for `n` decisions in `items`. Repeated with the same `key`, the response is the same."""
    arguments: dict[str, Any] = {"context": body.context, "eligible": body.eligible, "key": body.key}
    arguments |= {"unit": body.unit, "sticky": body.sticky}
    n = body.n
    if n is not None and not 1 <= n <= MAX_ITEMS:
        detail = f"A request must ask for 1 to {MAX_ITEMS} decisions; got {n}."
        raise RequestError("too-large" if n > 0 else "invalid-value", detail, [FieldError("/n", detail)])

    def work(study: Study) -> DecisionResponse | DecisionsResponse:
        try:
            if n is None:
                return _decision_response(study, study.ask(**arguments))
            return DecisionsResponse([_decision_response(study, decision) for decision in study.ask(n, **arguments)])
        except StorageError:
            raise
        except CausalBanditsError as error:
            raise decision_refusal(study.problem, body, error) from None

    return await writer.submit(work)


def _decision_response(study: Study, decision: Decision) -> DecisionResponse:
    values: dict[str, Any] = dict(decision.action)
    due = None if study.rules.attribution_window is None else study.due(decision.id)
    return DecisionResponse(str(decision.id), values, decision.propensity, due)


async def tell(writer: Writer, request: Request, body: RawTellRequest) -> OutcomesResponse:
    """Report outcomes of decisions.

    Each has a status: applied, incomplete, held, duplicate, early, late, conflict, unknown, refused.
    """
    if len(body.items) > MAX_ITEMS:
        detail = f"A request must report at most {MAX_ITEMS} outcomes; got {len(body.items)}."
        raise RequestError("too-large", detail, [FieldError("/items", detail)])
    items = [_decode_outcome(item, pointer("items", k)) for k, item in enumerate(body.items)]
    valid_items = [item for item in items if isinstance(item, OutcomeItem)]

    def work(study: Study) -> list[OutcomeResponse]:
        receipts = iter(study.tell_many(map(msgspec.structs.asdict, valid_items)))
        return [
            _outcome_response(next(receipts), study, item, pointer("items", k))
            if isinstance(item, OutcomeItem)
            else item
            for k, item in enumerate(items)
        ]

    responses = await writer.submit(work)
    writer.duplicates += sum(response.status == "duplicate" for response in responses)
    return OutcomesResponse(responses)


def _outcome_response(receipt: Receipt, study: Study, item: Any, place: str = "") -> OutcomeResponse:
    why = receipt.why and request_terms(receipt.why)
    errors = outcome_errors(study.problem, item, receipt.why, place) if receipt.status == "refused" else []
    return OutcomeResponse(receipt.status, why or (summary_of(errors) if errors else ""), list(receipt.missing), errors)


def _decode_outcome(raw: msgspec.Raw, place: str) -> OutcomeItem | OutcomeResponse:
    """An outcome, or the response to an undecodable one."""
    try:
        item = msgspec.json.decode(raw, type=OutcomeItem)
        errors = duplicate_key_errors(raw) if has_duplicate_keys(bytes(raw)) else []
    except DECODE_ERRORS as error:
        refusal = decode_error(raw, OutcomeItem, error)
        errors = refusal.errors or [FieldError("", str(refusal))]
    if not errors:
        return item
    errors = [FieldError(f"{place}{one.field}", one.detail) for one in errors]
    return OutcomeResponse("refused", summary_of(errors), [], errors)


async def correct(writer: Writer, request: Request, body: CorrectRequest) -> OutcomeResponse:
    """Correct the outcome of a decision. The change is logged with the name of the key."""
    by = request.state.key.name

    def work(study: Study) -> OutcomeResponse:
        id = find_decision(study, request)
        try:
            receipt = study.correct(id, reward=body.reward, observed=body.observed, by=by)
        except (StorageError, UnknownDecisionError, ConflictError):
            raise
        except CausalBanditsError as error:
            if study.status(id) in ("open", "cancelled"):
                raise FieldsError(error, [], "not-applicable") from None
            raise FieldsError(error, outcome_errors(study.problem, body, str(error))) from None
        return _outcome_response(receipt, study, body)

    return await writer.submit(work)


async def retract(writer: Writer, request: Request) -> StatusResponse:
    """Retract an outcome, so that the decision is pending again. By a key, also an early outcome."""
    by = request.state.key.name
    await _submit_command(writer, lambda study: study.retract(find_decision(study, request), by=by))
    return StatusResponse("applied")


async def cancel(writer: Writer, request: Request) -> StatusResponse:
    """Cancel a decision that was not carried out. Its outcome is no longer expected."""
    by = request.state.key.name
    await _submit_command(writer, lambda study: study.cancel(find_decision(study, request), by=by))
    return StatusResponse("applied")


async def expire(writer: Writer, request: Request) -> ExpireResponse:
    """Apply the default reward to all pending decisions whose attribution window has passed.

    Decisions are processed in batches; other requests are served between them.
    """
    expired, batch = 0, EXPIRY_BATCH
    while batch == EXPIRY_BATCH and not writer.is_stopping:
        batch = await _submit_command(writer, lambda study: study.expire(limit=EXPIRY_BATCH))
        expired += batch
    return ExpireResponse(expired)


async def _submit_command(writer: Writer, command: Callable[[Study], Result]) -> Result:
    """The result of a command without a body; errors refer to the study's state instead of a field."""

    def work(study: Study) -> Result:
        try:
            return command(study)
        except TellError as error:
            raise error if type(error) is not TellError else FieldsError(error, [], "not-applicable") from None

    return await writer.submit(work)


async def report_change(writer: Writer, request: Request, body: ReportChangeRequest) -> StatusResponse:
    """Report that a mechanism has changed: outcomes of earlier decisions no longer count for it.

    The report is logged with the name of the key. Repeating it before the next decision has no further effect.
    """
    by = request.state.key.name

    def work(study: Study) -> None:
        try:
            study.changed(body.mechanism, by=by)
        except PolicyError as error:
            raise FieldsError(error, [FieldError("/mechanism", request_terms(str(error)))]) from None

    await writer.submit(work)
    return StatusResponse("applied")


async def set_mode(writer: Writer, request: Request, body: SetModeRequest) -> JSONRecord:
    """Change the mode of a study. The change is logged with the name of the key. The response is the mode."""
    _validate_mode(body)
    by = request.state.key.name

    def work(study: Study) -> JSONRecord:
        try:
            study.set_mode(body.mode, baseline=body.baseline, by=by, why=body.why)  # type: ignore[arg-type]
        except InterventionError as error:
            problem = study.problem
            raise assignment_refusal(problem, problem.manipulable, body.baseline or {}, "/baseline", error) from None
        except StudyModeError as error:
            if not error.path:
                raise
            raise FieldsError(error, argument_errors(["baseline"], error), "invalid-mode") from None
        return study.modes()[-1]

    return await writer.submit(work)


def _validate_mode(body: SetModeRequest) -> None:
    errors = []
    if body.mode not in MODES:
        errors.append(FieldError("/mode", request_terms(unknown_name_message("mode", body.mode, MODES))))
    elif body.baseline is not None and body.mode != "shadow":
        errors.append(FieldError("/baseline", f'is allowed in the mode "shadow" only; the mode is "{body.mode}".'))
    if len(body.why) > MAX_REMARK_LENGTH or not body.why.isprintable():
        errors.append(FieldError("/why", f"must be printable text of {MAX_REMARK_LENGTH} characters at most."))
    if errors:
        raise RequestError(
            "invalid-mode", errors[0].detail if errors[0].field == "/mode" else summary_of(errors), errors
        )


async def use(writer: Writer, request: Request, body: SetPolicyRequest) -> PolicyResponse:
    """Change the policy of a study. It keeps the statistic. The change is logged with the name of the key."""
    by = request.state.key.name
    new_policy = _parse_policy(body.policy, body.parameters)

    def work(study: Study) -> PolicyResponse:
        try:
            with collect_warnings() as warnings:
                study.use(new_policy, by=by)
        except StorageError:
            raise
        except CausalBanditsError as error:
            raise FieldsError(error, [FieldError("/policy", request_terms(str(error)))], "invalid-policy") from None
        return PolicyResponse(str(study.policy), list(map(request_terms, warnings)))

    return await writer.submit(work)


async def create(context: ServiceContext, request: Request, body: CreateStudyRequest) -> StudyResponse:
    """Create a study in the directory of the service."""
    if context.directory is None:
        raise RequestError(
            "forbidden",
            ("This service does not create studies. The operator can enable it with the option --directory."),
        )
    if not request.state.key.opens(None):
        raise RequestError("forbidden", "Your key is limited to some studies and cannot create others.")
    if body.name in context.writers:
        raise RequestError(
            "conflict",
            (f"A study named {body.name!r:.80} exists already. Choose another name."),
            [FieldError("/name", "is taken.")],
        )
    with collect_warnings() as warnings:  # only of this task, whose context the thread shares
        study = await asyncio.to_thread(create_study, context.directory, body)
    context.writers[body.name] = Writer(study, name=body.name)
    return StudyResponse(body.name, str(study.policy), list(map(request_terms, warnings)))
