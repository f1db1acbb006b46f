"""From a table of past campaigns and a graph to decisions: fit, check, look, forecast, run."""

from pathlib import Path

import causalbandits as cb
from causalbandits.results import Code, Heading, Picture, Text, write_figures, write_page
from causalbandits.results.plots import plot_graph

OUT = Path("results")
GRAPH = {
    "product": [],
    "purpose": [],
    "send_time": [],
    "subject": ["purpose"],
    "template": ["product", "purpose"],
}


def past_campaigns(path: Path, mails: int = 5000) -> None:
    """Stands for an export of yours: a line per mail that was sent, what it was like."""
    columns = cb.zoo.email_campaign().problem.model.sample(mails, rng=0)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(mails: int = 1000, worlds: int = 100) -> None:
    OUT.mkdir(exist_ok=True)
    data = OUT / "past.csv"
    past_campaigns(data)

    print("1. Do the data contradict the graph?")
    print(cb.check(GRAPH, data), "\n")

    print("2. Tables from data:")
    model = cb.fit(GRAPH, data, values={"template": ["1", "2"]})  # names, not numbers
    problem = cb.Problem(
        model,
        manipulable=["product", "purpose", "send_time"],
        reward_parents=["subject", "template", "send_time"],
        optional=True,
    )
    print(model, "\n")

    print("3. What the problem is like:")
    print(cb.describe(problem, horizon=mails), "\n")

    print("4. How many mails would it take? (means of the clicks ~ Beta(4, 4))")
    forecast = cb.forecast(problem, horizon=mails, reward_prior=(4, 4), replications=worlds)
    forecast.plot(OUT / "forecast.png")
    print(forecast, "\n")

    print(f"5. The campaign: {mails} mails, decided one by one.")
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=7, zero_probability="allow")
    world = cb.zoo.email_campaign()  # stands for the real one
    for mail in range(mails):
        decision = agent.ask()
        outcome = world.pull(decision.action, rng=mail)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
    agent.save(OUT / "agent.json", overwrite=True)
    best = agent.recommend()
    print(f"Its advice: {best.intervention}, {best.lower:.0%} to {best.upper:.0%} clicks.")
    truth = world.mean_reward(best.intervention), world.best().mean
    print(f"In truth that has {truth[0]:.1%}; the best action has {truth[1]:.1%}.")

    folder = OUT / "campaign"
    write_figures(folder / "figures", {"graph": plot_graph(problem, reward="click"), "forecast": forecast.plot()})
    write_page(
        folder,
        [
            Heading("The campaign", 1),
            Text(f"{mails} mails. Advice: {best.intervention}, {best.lower:.0%} to {best.upper:.0%} clicks."),
            Picture("graph", "What is known: blue can be chosen, bold is what clicks depend on."),
            Heading("What was expected beforehand"),
            Picture("forecast", f"{worlds} possible worlds."),
            Heading("What the data said of the graph"),
            Code(repr(cb.check(GRAPH, data))),
        ],
    )
    print(f"The report: {folder / 'report.html'}")


if __name__ == "__main__":
    main()
