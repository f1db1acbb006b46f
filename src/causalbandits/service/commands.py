"""What programs may change over HTTP: answered when it is on disk."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request

from causalbandits.campaign import Decision
from causalbandits.errors import ConflictError, StateError, unknown
from causalbandits.policies import policy
from causalbandits.problem import Budget, Problem
from causalbandits.service.http import MOST_ITEMS, UNREADABLE, Answer, RefusedError, decoded, named_decision
from causalbandits.service.schemas import (
    Corrected,
    DecisionWanted,
    ModeWanted,
    OutcomesSent,
    OutcomeTold,
    PolicyWanted,
    StudyWanted,
)
from causalbandits.service.workers import Writer
from causalbandits.study import MODES, Receipt, Study

if TYPE_CHECKING:
    from causalbandits.service.app import Service


# Studies that are made over HTTP: files of a directory, by names that reach no path.

LONGEST_STUDY_NAME = 100
TAKEN = ("login", "static", "v1", "livez", "readyz", "metrics", "openapi")
"""Other things are at these addresses."""

MADE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def check_served_name(name: str) -> None:
    """Say so if a study cannot be served by this name."""
    if name in TAKEN or len(name) > LONGEST_STUDY_NAME or not name.isprintable():
        raise StateError(
            "A study is served by its file's name, which must be printable, of "
            f"{LONGEST_STUDY_NAME} characters at most, and none of {', '.join(TAKEN)}; got {name!r:.60}."
        )


def made_study(directory: Path, wanted: StudyWanted) -> Study:
    """A new study in a directory."""
    if not MADE_NAME.fullmatch(wanted.name):
        raise StateError(
            "A study's name has small letters, digits, - and _, 64 at most, a letter or digit first; got "
            f"{wanted.name!r:.60}."
        )
    check_served_name(wanted.name)
    file = directory / f"{wanted.name}.db"
    if file.exists():
        raise ConflictError(f"There is a study named {wanted.name!r} already.")
    chosen = None if wanted.policy is None else policy(wanted.policy, **wanted.parameters)
    return Study.create(
        file,
        Problem.from_record(wanted.problem),
        chosen,
        horizon=wanted.horizon,
        seed=wanted.seed,
        window=wanted.window,
        default=wanted.default,
        late=wanted.late,
        impossible=wanted.impossible,
        budget=None if wanted.budget is None else Budget(*wanted.budget),
        hold=wanted.hold,
        floor=wanted.floor,
    )


async def ask(service: Service, writer: Writer, request: Request) -> Answer:
    """Ask for a decision, or for `n`, in `items`. With a `key`, asking again gives the same."""
    asked: DecisionWanted = await decoded(request, DecisionWanted)
    question: dict[str, Any] = {"context": asked.context, "eligible": asked.eligible, "key": asked.key}
    n = asked.n
    if n is not None and not 1 <= n <= MOST_ITEMS:
        raise RefusedError(
            413 if n > 0 else 422, f"From 1 to {MOST_ITEMS} decisions can be asked for at once; got {n}."
        )

    def work(study: Study) -> Any:
        if n is None:
            return _shown(study, study.ask(**question))
        return {"items": [_shown(study, decision) for decision in study.ask(n, **question)]}

    return Answer(await writer.do(work), 201)


def _shown(study: Study, decision: Decision) -> dict[str, Any]:
    return {
        "id": decision.id,
        "intervention": dict(decision.intervention),
        "propensity": decision.propensity,
        "due": None if study.rules.window is None else study.due(decision.id),
    }


async def tell(service: Service, writer: Writer, request: Request) -> Answer:
    """Tell outcomes; each has a status: applied, held, duplicate, early, late, conflict, unknown, refused."""
    told: OutcomesSent = await decoded(request, OutcomesSent)
    if len(told.items) > MOST_ITEMS:
        raise RefusedError(413, f"{MOST_ITEMS} outcomes at most can be told at once; got {len(told.items)}.")
    items = [_outcome(one) for one in told.items]
    read = [one for one in items if isinstance(one, dict)]
    answers = await writer.do(lambda study: study.tell_many(read))
    writer.duplicates += sum(one.status == "duplicate" for one in answers)
    given = iter(answers)
    receipts = [next(given) if isinstance(one, dict) else one for one in items]
    return Answer({"items": [{"status": one.status, "why": one.why} for one in receipts]})


def _outcome(sent: msgspec.Raw) -> dict[str, Any] | Receipt:
    """One of many, or why it is none."""
    try:
        return msgspec.structs.asdict(msgspec.json.decode(sent, type=OutcomeTold))
    except UNREADABLE as error:
        return Receipt("refused", str(error))


async def correct(service: Service, writer: Writer, request: Request) -> Answer:
    """Another outcome than the one that was told."""
    told: Corrected = await decoded(request, Corrected)
    named = named_decision(request)

    def work(study: Study) -> Any:
        return study.correct(study.id_of(*named), told.parents, told.reward, observed=told.observed)

    answer = await writer.do(work)
    return Answer({"status": answer.status})


async def retract(service: Service, writer: Writer, request: Request) -> Answer:
    """Take back what was told: the decision waits for its outcome again."""
    named = named_decision(request)
    await writer.do(lambda study: study.retract(study.id_of(*named)))
    return Answer({"status": "applied"})


async def forget(service: Service, writer: Writer, request: Request) -> Answer:
    """Stop waiting for an outcome: the decision was not carried out."""
    named = named_decision(request)
    await writer.do(lambda study: study.forget(study.id_of(*named)))
    return Answer({"status": "applied"})


async def expire(service: Service, writer: Writer, request: Request) -> Answer:
    """Take the silence of decisions whose window has passed for the default outcome."""
    return Answer({"expired": await writer.do(lambda study: study.expire())})


async def set_mode(service: Service, writer: Writer, request: Request) -> Answer:
    """How decisions come about from now on; logged with the key's name."""
    wanted: ModeWanted = await decoded(request, ModeWanted)
    if wanted.mode not in MODES:
        raise RefusedError(422, unknown("mode", wanted.mode, MODES), "StudyModeError")
    by = request.state.key.name

    def work(study: Study) -> Any:
        study.set_mode(wanted.mode, baseline=wanted.baseline, by=by, why=wanted.why)  # type: ignore[arg-type]
        return study.modes()

    return Answer({"modes": await writer.do(work)})


async def use(service: Service, writer: Writer, request: Request) -> Answer:
    """Another policy decides from now on; it starts with all that was learnt."""
    wanted: PolicyWanted = await decoded(request, PolicyWanted)
    chosen = policy(wanted.policy, **wanted.parameters)
    await writer.do(lambda study: study.use(chosen))
    return Answer({"policy": str(chosen)})


async def create(service: Service, writer: Writer, request: Request) -> Answer:
    """Make a study, in the directory that the service was started with."""
    wanted: StudyWanted = await decoded(request, StudyWanted)
    if service.directory is None:
        raise RefusedError(403, "This service makes no studies: causalbandits serve --directory DIRECTORY does.")
    if not request.state.key.opens(None):
        raise RefusedError(403, "Your key is for some studies: it makes no others.")
    if wanted.name in service.writers:
        raise RefusedError(409, f"There is a study named {wanted.name!r:.80} already.")
    made = await asyncio.to_thread(made_study, service.directory, wanted)
    service.writers[wanted.name] = Writer(made)
    return Answer({"study": wanted.name}, 201)
