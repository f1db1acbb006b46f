"""The routes: what may be asked over HTTP, by whom, and what is answered.

Every route stands in `ROUTES` with the role that it needs; there is no other way in. Refusals are answers, too:
400 what cannot be read, 401 no key, 403 a key that does not allow it, 404, 409 what contradicts what was told or asked
before, 413 too long, 422 what was understood and cannot be, 429 too much waits, 503 the database did not do it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from causalbandits.errors import CausalBanditsError, ConflictError, StorageError, UnknownDecisionError
from causalbandits.service import pages
from causalbandits.service.keys import Keys, Role, allows
from causalbandits.service.writer import BusyError, Writer
from causalbandits.study import Study

LONGEST_BODY = 2**20
MOST_ITEMS = 1000
"""So many outcomes may be told at once."""

LOCAL = ("127.0.0.1", "localhost", "[::1]")

logger = logging.getLogger("causalbandits.service")


class DecisionWanted(msgspec.Struct, forbid_unknown_fields=True):
    """A question."""

    key: str | None = None
    context: dict[str, str | int | float | bool] | None = None
    eligible: list[dict[str, str | int | float | bool]] | None = None


class OutcomeTold(msgspec.Struct, forbid_unknown_fields=True):
    """An outcome: of a decision by its number or its key."""

    id: int | str
    reward: int | float | None
    parents: dict[str, str | int | float | bool] | None = None
    observed: dict[str, str | int | float | bool] | None = None


class OutcomesTold(msgspec.Struct, forbid_unknown_fields=True):
    """Outcomes, 1,000 at most."""

    items: list[OutcomeTold]


class Corrected(msgspec.Struct, forbid_unknown_fields=True):
    """Another outcome than the one that was told."""

    reward: int | float
    parents: dict[str, str | int | float | bool] | None = None
    observed: dict[str, str | int | float | bool] | None = None


class Answer(NamedTuple):
    """What is answered, and with which status."""

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


class _RefusedError(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


async def _decoded(request: Request, kind: type) -> Any:
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise _RefusedError(415, "The body must be JSON: Content-Type: application/json.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            raise _RefusedError(413, f"A body has {LONGEST_BODY} bytes at most.")
    try:
        return msgspec.json.decode(bytes(body), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _RefusedError(400, str(error)) from None


def _number(text: str) -> int | str:
    """A decision's number, or its key."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text


async def ask(service: Service, writer: Writer, request: Request) -> Answer:
    """Ask for a decision. With a `key`, asking again gives the same one."""
    asked: DecisionWanted = await _decoded(request, DecisionWanted)

    def work(study: Study) -> Any:
        decision = study.ask(context=asked.context, eligible=asked.eligible, key=asked.key)
        return {
            "id": decision.id,
            "intervention": dict(decision.intervention),
            "propensity": decision.propensity,
            "due": study.due(decision.id),
        }

    return Answer(await writer.do(work), 201)


async def tell(service: Service, writer: Writer, request: Request) -> Answer:
    """Tell outcomes; each has a status of its own: applied, duplicate, early, late, conflict, unknown, refused."""
    told: OutcomesTold = await _decoded(request, OutcomesTold)
    if len(told.items) > MOST_ITEMS:
        raise _RefusedError(413, f"{MOST_ITEMS} outcomes at most can be told at once; got {len(told.items)}.")
    items = [msgspec.structs.asdict(one) for one in told.items]
    answers = await writer.do(lambda study: study.tell_many(items))
    return Answer({"items": [{"status": one.status, "why": one.why} for one in answers]})


async def correct(service: Service, writer: Writer, request: Request) -> Answer:
    """Another outcome than the one that was told."""
    told: Corrected = await _decoded(request, Corrected)
    id = _number(request.path_params["decision"])
    answer = await writer.do(lambda study: study.correct(id, told.parents, told.reward, observed=told.observed))
    return Answer({"status": answer.status})


async def retract(service: Service, writer: Writer, request: Request) -> Answer:
    """Take back what was told: the decision waits for its outcome again."""
    id = _number(request.path_params["decision"])
    await writer.do(lambda study: study.retract(id))
    return Answer({"status": "applied"})


async def forget(service: Service, writer: Writer, request: Request) -> Answer:
    """Stop waiting for an outcome: the decision was not carried out."""
    id = _number(request.path_params["decision"])
    await writer.do(lambda study: study.forget(id))
    return Answer({"status": "applied"})


async def expire(service: Service, writer: Writer, request: Request) -> Answer:
    """Take the silence of decisions whose window has passed for the default outcome."""
    return Answer({"expired": await writer.do(lambda study: study.expire())})


async def studies(service: Service, writer: Writer, request: Request) -> Answer:
    """The studies that are served."""
    return Answer({"studies": sorted(service.writers)})


async def report(service: Service, writer: Writer, request: Request) -> Answer:
    """How a study stands: counts, means by action and by configuration."""
    return Answer(await writer.do(lambda study: study.report().to_record()))


async def explain(service: Service, writer: Writer, request: Request) -> Answer:
    """A decision: what was asked, what was decided, what was told since, and whether it comes out the same again."""
    id = _number(request.path_params["decision"])
    return Answer(await writer.do(lambda study: study.explain(id)))


async def events(service: Service, writer: Writer, request: Request) -> Answer:
    """Events after a number, 1,000 at most: to follow a study from outside."""
    after = _number(request.query_params.get("after", "0"))
    if isinstance(after, str):
        raise _RefusedError(400, f"after must be the number of an event; got {after!r:.60}.")
    return Answer({"events": await writer.do(lambda study: study.events(after, MOST_ITEMS))})


async def verify(service: Service, writer: Writer, request: Request) -> Answer:
    """Fold the log again, and compare with what is kept, bit for bit."""
    found = await writer.do(lambda study: study.verify())
    return Answer({"ok": bool(found), "events": found.events, "differences": list(found.differences)})


async def alive(service: Service, writer: Writer, request: Request) -> Answer:
    """The process runs."""
    return Answer({"status": "ok"})


async def ready(service: Service, writer: Writer, request: Request) -> Answer:
    """Every study can be written."""
    dead = [name for name, own in service.writers.items() if not own.is_alive]
    return Answer({"status": "dead", "studies": dead}, 503) if dead else Answer({"status": "ok"})


async def openapi(service: Service, writer: Writer, request: Request) -> Answer:
    """This interface, for tools."""
    from causalbandits.service.openapi import document

    return Answer(document(ROUTES))


STUDY, DECISION = "/v1/studies/{study}", "/v1/studies/{study}/decisions/{decision}"

ROUTES: tuple[HTTPRoute, ...] = (
    HTTPRoute("GET", "/livez", None, alive),
    HTTPRoute("GET", "/readyz", None, ready),
    HTTPRoute("GET", "/openapi.json", None, openapi),
    HTTPRoute("GET", "/v1/studies", "reader", studies),
    HTTPRoute("POST", f"{STUDY}/decisions", "writer", ask, DecisionWanted),
    HTTPRoute("POST", f"{STUDY}/outcomes", "writer", tell, OutcomesTold),
    HTTPRoute("GET", f"{STUDY}/report", "reader", report),
    HTTPRoute("GET", f"{STUDY}/events", "reader", events),
    HTTPRoute("POST", f"{STUDY}/expire", "writer", expire),
    HTTPRoute("POST", f"{STUDY}/verify", "admin", verify),
    HTTPRoute("GET", DECISION, "reader", explain),
    HTTPRoute("POST", f"{DECISION}/correct", "admin", correct, Corrected),
    HTTPRoute("POST", f"{DECISION}/retract", "admin", retract),
    HTTPRoute("POST", f"{DECISION}/forget", "writer", forget),
)


Page = Callable[["Service", Request], Awaitable[Response]]

PAGES: tuple[tuple[str, str, Role | None, Page], ...] = (
    ("GET", "/", "reader", pages.listed),
    ("GET", "/login", None, pages.login),
    ("POST", "/login", None, pages.enter),
    ("GET", "/{study}", "reader", pages.shown),
    ("GET", "/{study}/decision", "reader", pages.decision),
    ("GET", "/{study}/what-if", "reader", pages.what_if),
    ("GET", "/{study}/live", "reader", pages.live),
)
"""What people look at, likewise with the role that it needs."""


class Service:
    """Some studies over HTTP: an ASGI application."""

    def __init__(self, studies: Mapping[str, Study], keys: Keys) -> None:
        self.keys = keys
        self.writers = {name: Writer(study) for name, study in studies.items()}
        self.is_closing = False
        self.app = Starlette(
            routes=[
                *(self._route(one) for one in ROUTES),
                Route("/static/{file}", pages.static),
                *(self._page(*one) for one in PAGES),
            ],
            exception_handlers={404: _nothing, 405: _nothing},
        )

    def close(self) -> None:
        """Finish what waits."""
        self.is_closing = True
        for writer in self.writers.values():
            writer.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)

    def _route(self, route: HTTPRoute) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                answer = await self._answer(route, request)
                return Response(msgspec.json.encode(answer.content), answer.status, media_type="application/json")
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:
                return _refusal(error)

        return Route(route.path, endpoint, methods=[route.method])

    def _page(self, method: str, path: str, role: Role | None, make: Page) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                if role is not None:
                    self._admit(role, request)
                self._named(request)
                return await make(self, request)
            except _RefusedError as error:
                if error.status == 401:
                    return RedirectResponse("/login", 303)
                return _refusal(error)
            except Exception as error:
                return _refusal(error)

        return Route(path, endpoint, methods=[method])

    def _named(self, request: Request) -> Writer | None:
        """The study that a path names."""
        name = request.path_params.get("study")
        if name is not None and name not in self.writers:
            raise _RefusedError(404, f"There is no study {name!r:.80} here.")
        return None if name is None else self.writers[name]

    async def _answer(self, route: HTTPRoute, request: Request) -> Answer:
        if route.role is not None:
            self._admit(route.role, request)
        return await route.handler(self, self._named(request), request)  # type: ignore[arg-type]

    def _admit(self, needed: Role, request: Request) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if not len(self.keys) and request.headers.get("host", "").rsplit(":", 1)[0] not in LOCAL:
            raise _RefusedError(403, "Without keys, this service answers to this machine alone.")
        bearer = given if scheme.lower() == "bearer" else None
        looking = request.cookies.get(pages.COOKIE) if request.method == "GET" else None
        role = self.keys.role_of(bearer or looking)
        if role is None:
            raise _RefusedError(401, "This needs a key: Authorization: Bearer cb_...")
        if not allows(role, needed):
            raise _RefusedError(403, f"This needs a key with the role {needed}; yours has {role}.")


def _refusal(error: Exception) -> Response:
    headers = {}
    if isinstance(error, _RefusedError):
        status = error.status
    elif isinstance(error, UnknownDecisionError):
        status = 404
    elif isinstance(error, ConflictError):
        status = 409
    elif isinstance(error, BusyError):
        status, headers = 429, {"Retry-After": "1"}
    elif isinstance(error, StorageError):
        status, headers = 503, {"Retry-After": "1"}
    elif isinstance(error, CausalBanditsError):
        status = 422
    else:
        logger.exception("A request failed", exc_info=error)
        return JSONResponse({"error": "Something went wrong here; the log says what."}, 500)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": str(error)}, status, headers)


async def _nothing(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    why = "There is nothing here; GET /openapi.json says what there is." if status == 404 else "Not with this method."
    return JSONResponse({"error": why}, status)
