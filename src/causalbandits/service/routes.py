"""Every way in for programs, with the role that it needs and what it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request

from causalbandits.service import changing, looking
from causalbandits.service.bodies import (
    Corrected,
    DecisionWanted,
    EvidenceWanted,
    ModeWanted,
    OutcomesTold,
    PolicyWanted,
    RankWanted,
    RecommendationsWanted,
    RecommendationWanted,
    RewardTold,
    StudyWanted,
)
from causalbandits.service.keys import Role
from causalbandits.service.requested import Answer
from causalbandits.service.writer import Writer

if TYPE_CHECKING:
    from causalbandits.service.app import Service

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


STUDY, DECISION = "/v1/studies/{study}", "/v1/studies/{study}/decisions/{decision}"
PERSONALIZER = "/{study}/personalizer/{version}"

ROUTES: tuple[HTTPRoute, ...] = (
    HTTPRoute("GET", "/livez", None, looking.alive),
    HTTPRoute("GET", "/readyz", None, looking.ready),
    HTTPRoute("GET", "/openapi.json", None, looking.openapi),
    HTTPRoute("GET", "/metrics", "reader", looking.metrics),
    HTTPRoute("GET", "/v1/studies", "reader", looking.studies),
    HTTPRoute("POST", "/v1/studies", "admin", changing.create, StudyWanted),
    HTTPRoute("GET", STUDY, "reader", looking.describe),
    HTTPRoute("POST", f"{STUDY}/decisions", "writer", changing.ask, DecisionWanted),
    HTTPRoute("POST", f"{STUDY}/outcomes", "writer", changing.tell, OutcomesTold),
    HTTPRoute("GET", f"{STUDY}/report", "reader", looking.report),
    HTTPRoute("POST", f"{STUDY}/recommendation", "reader", looking.recommend, RecommendationWanted),
    HTTPRoute("POST", f"{STUDY}/recommendations", "reader", looking.recommend_each, RecommendationsWanted),
    HTTPRoute("POST", f"{STUDY}/evidence", "admin", looking.evidence, EvidenceWanted),
    HTTPRoute("GET", f"{STUDY}/statistics", "reader", looking.statistics),
    HTTPRoute("GET", f"{STUDY}/events", "reader", looking.events),
    HTTPRoute("GET", f"{STUDY}/mode", "reader", looking.modes),
    HTTPRoute("POST", f"{STUDY}/mode", "admin", changing.set_mode, ModeWanted),
    HTTPRoute("POST", f"{STUDY}/policy", "admin", changing.use, PolicyWanted),
    HTTPRoute("POST", f"{STUDY}/expire", "writer", changing.expire),
    HTTPRoute("POST", f"{STUDY}/verify", "admin", looking.verify),
    HTTPRoute("GET", DECISION, "reader", looking.explain),
    HTTPRoute("POST", f"{DECISION}/correct", "admin", changing.correct, Corrected),
    HTTPRoute("POST", f"{DECISION}/retract", "admin", changing.retract),
    HTTPRoute("POST", f"{DECISION}/forget", "writer", changing.forget),
    HTTPRoute("POST", f"{PERSONALIZER}/rank", "writer", changing.rank, RankWanted),
    HTTPRoute("POST", f"{PERSONALIZER}/events/{{event}}/reward", "writer", changing.reward, RewardTold),
    HTTPRoute("POST", f"{PERSONALIZER}/events/{{event}}/activate", "writer", changing.activate),
)
