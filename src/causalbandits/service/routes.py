"""What programs may ask over HTTP. Every route stands in `ROUTES` with the role that it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect, Request

from causalbandits.errors import CausalBanditsError
from causalbandits.service.bodies import (
    Corrected,
    DecisionWanted,
    ModeWanted,
    OutcomesTold,
    RankWanted,
    RewardTold,
    StudyWanted,
)
from causalbandits.service.keys import Role
from causalbandits.service.made import made_study
from causalbandits.service.metrics import metrics_text
from causalbandits.service.personalizer import ranked, rewarded
from causalbandits.service.refusals import RefusedError
from causalbandits.service.writer import Writer
from causalbandits.study import Study

if TYPE_CHECKING:
    from causalbandits.service.app import Service

LONGEST_BODY = 2**20
MOST_ITEMS = 1000
"""So many outcomes may be told at once."""

READY_SECONDS = 5.0
"""A study that takes longer to answer is not ready."""


class Answer(NamedTuple):
    """What is answered, and with which status; text, if it is no JSON, as it is."""

    content: Any
    status: int = 200


Handler = Callable[["Service", Writer, Request], Awaitable[Answer]]


class HTTPRoute(NamedTuple):
    """One way in."""

    method: str
    path: str
    role: Role | None
    """None: open to everybody."""
    handler: Handler
    takes: type | None = None

    @property
    def says(self) -> str:
        """What it is for."""
        return (self.handler.__doc__ or "").strip()


def header(request: Request, name: bytes) -> str:
    """The first one of a name (in small letters), or nothing."""
    for own, content in request.scope["headers"]:
        if own == name:
            return str(content, "latin-1")
    return ""


def given_key(request: Request) -> str | None:
    """The key that a request came with."""
    scheme, _, given = header(request, b"authorization").partition(" ")
    return given if scheme.lower() == "bearer" else header(request, b"ocp-apim-subscription-key") or None


async def _body(request: Request) -> bytes:
    """All of it, or a refusal as soon as it is too long."""
    body, more = b"", True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > LONGEST_BODY:
            raise RefusedError(413, f"A body has {LONGEST_BODY} bytes at most.")
    return body


async def _decoded(request: Request, kind: type) -> Any:
    if header(request, b"content-type").split(";")[0].strip() != "application/json":
        raise RefusedError(415, "The body must be JSON: Content-Type: application/json.")
    try:
        return msgspec.json.decode(await _body(request), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, str(error)) from None


def _named(request: Request) -> tuple[str, str | None]:
    """Which decision is meant, and by what: ?key= and ?number= are exact, and the path is whichever it is."""
    for by in ("key", "number"):
        if by in request.query_params:
            return request.query_params[by], by
    return request.path_params["decision"], None


async def ask(service: Service, writer: Writer, request: Request) -> Answer:
    """Ask for a decision. With a `key`, asking again gives the same one."""
    asked: DecisionWanted = await _decoded(request, DecisionWanted)

    def work(study: Study) -> Any:
        decision = study.ask(context=asked.context, eligible=asked.eligible, key=asked.key)
        return {
            "id": decision.id,
            "intervention": dict(decision.intervention),
            "propensity": decision.propensity,
            "due": None if study.rules.window is None else study.due(decision.id),
        }

    return Answer(await writer.do(work), 201)


async def tell(service: Service, writer: Writer, request: Request) -> Answer:
    """Tell outcomes; each has a status of its own: applied, duplicate, early, late, conflict, unknown, refused."""
    told: OutcomesTold = await _decoded(request, OutcomesTold)
    if len(told.items) > MOST_ITEMS:
        raise RefusedError(413, f"{MOST_ITEMS} outcomes at most can be told at once; got {len(told.items)}.")
    items = [msgspec.structs.asdict(one) for one in told.items]
    answers = await writer.do(lambda study: study.tell_many(items))
    return Answer({"items": [{"status": one.status, "why": one.why} for one in answers]})


async def correct(service: Service, writer: Writer, request: Request) -> Answer:
    """Another outcome than the one that was told."""
    told: Corrected = await _decoded(request, Corrected)
    named = _named(request)

    def work(study: Study) -> Any:
        return study.correct(study.id_of(*named), told.parents, told.reward, observed=told.observed)

    answer = await writer.do(work)
    return Answer({"status": answer.status})


async def retract(service: Service, writer: Writer, request: Request) -> Answer:
    """Take back what was told: the decision waits for its outcome again."""
    named = _named(request)
    await writer.do(lambda study: study.retract(study.id_of(*named)))
    return Answer({"status": "applied"})


async def forget(service: Service, writer: Writer, request: Request) -> Answer:
    """Stop waiting for an outcome: the decision was not carried out."""
    named = _named(request)
    await writer.do(lambda study: study.forget(study.id_of(*named)))
    return Answer({"status": "applied"})


async def expire(service: Service, writer: Writer, request: Request) -> Answer:
    """Take the silence of decisions whose window has passed for the default outcome."""
    return Answer({"expired": await writer.do(lambda study: study.expire())})


async def set_mode(service: Service, writer: Writer, request: Request) -> Answer:
    """How decisions come about from now on; logged with the key's name."""
    wanted: ModeWanted = await _decoded(request, ModeWanted)
    by = request.state.key.name

    def work(study: Study) -> Any:
        study.set_mode(wanted.mode, baseline=wanted.baseline, by=by, why=wanted.why)  # type: ignore[arg-type]
        return study.modes()

    return Answer({"modes": await writer.do(work)})


async def modes(service: Service, writer: Writer, request: Request) -> Answer:
    """The modes that a study has been in, since when, who chose them and why."""
    return Answer({"modes": await writer.reader.look(lambda study: study.modes())})


async def studies(service: Service, writer: Writer, request: Request) -> Answer:
    """The studies that are served."""
    return Answer({"studies": list(service.open_to(request))})


async def create(service: Service, writer: Writer, request: Request) -> Answer:
    """Make a study, in the directory that the service was started with."""
    wanted: StudyWanted = await _decoded(request, StudyWanted)
    if service.directory is None:
        raise RefusedError(403, "This service makes no studies: causalbandits serve --directory DIRECTORY does.")
    if not request.state.key.opens(None):
        raise RefusedError(403, "Your key is for some studies: it makes no others.")
    if wanted.name in service.writers:
        raise RefusedError(409, f"There is a study named {wanted.name!r:.80} already.")
    made = await asyncio.to_thread(made_study, service.directory, wanted)
    service.writers[wanted.name] = Writer(made)
    return Answer({"study": wanted.name}, 201)


async def report(service: Service, writer: Writer, request: Request) -> Answer:
    """How a study stands: counts, means by action and by configuration."""
    return Answer(await writer.reader.look(lambda study: study.report().to_record()))


async def explain(service: Service, writer: Writer, request: Request) -> Answer:
    """A decision: what was asked, what was decided, what was told since, and whether it comes out the same again."""
    named = _named(request)
    return Answer(await writer.reader.look(lambda study: study.explain(study.id_of(*named))))


async def events(service: Service, writer: Writer, request: Request) -> Answer:
    """Events after a number, 1,000 at most: to follow a study from outside."""
    after = request.query_params.get("after", "0")
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise RefusedError(400, f"after must be the number of an event; got {after!r:.60}.")
    return Answer({"events": await writer.reader.look(lambda study: study.events(int(after), MOST_ITEMS))})


async def verify(service: Service, writer: Writer, request: Request) -> Answer:
    """Fold the log again, and compare with what is kept, bit for bit."""
    found = await writer.reader.look(lambda study: study.verify())
    return Answer({"ok": bool(found), "events": found.events, "differences": list(found.differences)})


async def alive(service: Service, writer: Writer, request: Request) -> Answer:
    """The process runs."""
    return Answer({"status": "ok"})


async def ready(service: Service, writer: Writer, request: Request) -> Answer:
    """Every study can be written."""
    able = await asyncio.gather(*(_answers(own) for own in service.writers.values()))
    dead = [name for name, is_able in zip(service.writers, able, strict=True) if not is_able]
    return Answer({"status": "dead", "studies": dead}, 503) if dead else Answer({"status": "ok"})


async def _answers(writer: Writer) -> bool:
    """Whether a writer gets a transaction of its study, in time."""
    if not writer.is_alive:
        return False
    try:
        await asyncio.wait_for(writer.do(lambda study: study.version), READY_SECONDS)
    except (TimeoutError, CausalBanditsError):
        return False
    return True


async def metrics(service: Service, writer: Writer, request: Request) -> Answer:
    """Counts of every study and its writer, as Prometheus reads them."""
    return Answer(await metrics_text(service.open_to(request)))


async def rank(service: Service, writer: Writer, request: Request) -> Answer:
    """Personalizer's rank: the actions, that which is to be shown first."""
    wanted: RankWanted = await _decoded(request, RankWanted)
    return Answer(await writer.do(lambda study: ranked(study, wanted)), 201)


async def reward(service: Service, writer: Writer, request: Request) -> Answer:
    """Personalizer's reward of an event, with the values of the reward's parents if they are known."""
    told: RewardTold = await _decoded(request, RewardTold)
    event = request.path_params["event"]
    await writer.do(lambda study: rewarded(study, event, told))
    return Answer({}, 204)


async def activate(service: Service, writer: Writer, request: Request) -> Answer:
    """Personalizer's activation of an event, which is decided already."""
    return Answer({}, 204)


async def openapi(service: Service, writer: Writer, request: Request) -> Answer:
    """This interface, for tools."""
    from causalbandits.service.openapi import document

    return Answer(document(ROUTES))


STUDY, DECISION = "/v1/studies/{study}", "/v1/studies/{study}/decisions/{decision}"
PERSONALIZER = "/{study}/personalizer/{version}"

ROUTES: tuple[HTTPRoute, ...] = (
    HTTPRoute("GET", "/livez", None, alive),
    HTTPRoute("GET", "/readyz", None, ready),
    HTTPRoute("GET", "/openapi.json", None, openapi),
    HTTPRoute("GET", "/metrics", "reader", metrics),
    HTTPRoute("GET", "/v1/studies", "reader", studies),
    HTTPRoute("POST", "/v1/studies", "admin", create, StudyWanted),
    HTTPRoute("POST", f"{STUDY}/decisions", "writer", ask, DecisionWanted),
    HTTPRoute("POST", f"{STUDY}/outcomes", "writer", tell, OutcomesTold),
    HTTPRoute("GET", f"{STUDY}/report", "reader", report),
    HTTPRoute("GET", f"{STUDY}/events", "reader", events),
    HTTPRoute("GET", f"{STUDY}/mode", "reader", modes),
    HTTPRoute("POST", f"{STUDY}/mode", "admin", set_mode, ModeWanted),
    HTTPRoute("POST", f"{STUDY}/expire", "writer", expire),
    HTTPRoute("POST", f"{STUDY}/verify", "admin", verify),
    HTTPRoute("GET", DECISION, "reader", explain),
    HTTPRoute("POST", f"{DECISION}/correct", "admin", correct, Corrected),
    HTTPRoute("POST", f"{DECISION}/retract", "admin", retract),
    HTTPRoute("POST", f"{DECISION}/forget", "writer", forget),
    HTTPRoute("POST", f"{PERSONALIZER}/rank", "writer", rank, RankWanted),
    HTTPRoute("POST", f"{PERSONALIZER}/events/{{event}}/reward", "writer", reward, RewardTold),
    HTTPRoute("POST", f"{PERSONALIZER}/events/{{event}}/activate", "writer", activate),
)
