"""Clocks that jump, go back or differ between hosts: nothing expires too early, and no age is negative."""

import warnings

import pytest

import causalbandits as cb
from causalbandits.errors import ClockWarning
from causalbandits.study import session
from causalbandits.study.session import CLOCK_TOLERANCE, SteadyClock

PROBLEM = cb.zoo.email_campaign().problem
SEEN = {"subject": "short", "template": "1"}
HOUR = 3600.0


class Computer:
    """A clock that somebody can set, and the seconds since the computer was started, that nobody can."""

    def __init__(self, wall: float = 1.7e9) -> None:
        self.wall, self.elapsed = wall, 50.0

    def pass_seconds(self, seconds: float) -> None:
        self.wall += seconds
        self.elapsed += seconds

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.elapsed)


@pytest.fixture
def computer(monkeypatch):
    """Studies that are opened on it, as if by a process that was just started."""
    computer = Computer()
    monkeypatch.setattr(session, "_steady_clock", computer.clock())
    return computer


def restart(computer, monkeypatch):
    monkeypatch.setattr(session, "_steady_clock", computer.clock())


def create(tmp_path, **options):
    return cb.Study.create(tmp_path / "campaign.db", PROBLEM, seed=1, **options)


def test_a_clock_that_is_set_forward_expires_nothing_that_is_not_due(tmp_path, computer):
    with create(tmp_path, attribution_window=HOUR, default_reward=0) as study:
        study.ask(key="a")
        computer.wall += 5 * HOUR
        with pytest.warns(ClockWarning, match=r"set forward by 18000 seconds"):
            assert study.expire() == 0
        computer.pass_seconds(HOUR - 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it was said already
            assert study.expire() == 0
            computer.pass_seconds(1)
            assert study.expire() == 1


def test_a_clock_that_is_set_back_makes_no_negative_age_and_delays_nothing(tmp_path, computer):
    with create(tmp_path, attribution_window=HOUR, default_reward=0) as study:
        decision = study.ask(key="a")
        study.ask(key="b")
        computer.pass_seconds(60)
        computer.wall -= 5 * HOUR
        with pytest.warns(ClockWarning, match="set back by 18000 seconds"):
            study.tell(decision, reward=1, observed=SEEN)
        assert study.counts()["oldest_open_seconds"] == 60.0
        assert [event["at"] for event in study.events()] == [study.explain("b")["asked"] + 60]
        computer.pass_seconds(HOUR)
        assert study.expire() == 1


def test_small_steps_are_followed(computer):
    clock = computer.clock()
    for _ in range(100):
        computer.pass_seconds(60)
        computer.wall += CLOCK_TOLERANCE / 2
        assert clock() == computer.wall


def test_time_in_the_log_never_goes_back_between_processes(tmp_path, computer, monkeypatch):
    with create(tmp_path) as study:
        first = study.ask(key="a")
    asked = computer.wall
    computer.wall -= 5 * HOUR
    restart(computer, monkeypatch)
    with pytest.warns(ClockWarning, match="18000 seconds behind the time of the latest record"):
        study = cb.Study.open(tmp_path / "campaign.db")
    with study:
        study.ask(key="b")
        study.tell(first, reward=1, observed=SEEN)
        assert study.explain("b")["asked"] == asked
        assert study.events()[0]["at"] == asked
        assert study.counts()["oldest_open_seconds"] == 0.0
        assert study.verify()


def test_a_clock_that_is_years_ahead_is_noticed(tmp_path, computer, monkeypatch):
    with create(tmp_path) as study:
        study.ask()
    computer.wall += 366 * 24 * HOUR + 1
    restart(computer, monkeypatch)
    with pytest.warns(ClockWarning, match=r"ahead of the time of the latest record.*before decisions expire"):
        cb.Study.open(tmp_path / "campaign.db").close()


def test_a_study_goes_by_the_time_of_its_database(tmp_path, computer, monkeypatch):
    from causalbandits.study.storage.sqlite import SQLite

    monkeypatch.setattr(SQLite, "now", lambda store: 5000.0)  # as PostgreSQL has one
    with create(tmp_path, attribution_window=HOUR, default_reward=0) as study:
        study.ask(key="a")
        assert study.explain("a")["asked"] == 5000.0
        computer.pass_seconds(10 * HOUR)
        assert study.expire() == 0
