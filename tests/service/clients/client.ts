// A study over HTTP with the generated types: created, asked, told late, twice and in parts, completed, recommended.
import createClient from "openapi-fetch";
import type { components, paths } from "./service.js";

type Specification = components["schemas"]["ProblemSpecification"];
type Receipt = components["schemas"]["OutcomeResponse"];
declare const process: { env: Record<string, string | undefined> };

function expect(condition: boolean, claim: string): asserts condition {
  if (!condition) throw new Error(claim);
}

const client = createClient<paths>({ baseUrl: process.env.SERVICE ?? "" });
const problem: Specification = {
  graph: "banner -> viewed -> sale; delivery -> sale",
  reward: "sale",
  manipulable: { banner: ["plain", "loud"], delivery: ["standard", "free"] },
  values: { viewed: ["no", "yes"] },
};

const created = await client.POST("/v1/studies", { body: { name: "shop", problem, seed: 1 } });
expect(created.data?.policy === "c-ts(cpts=learned)", JSON.stringify(created));
const params = { path: { study: "shop" } };

const first = await client.POST("/v1/studies/{study}/decisions", {
  params,
  body: { key: "a", unit: "visitor-1" },
  signal: AbortSignal.timeout(30_000),
});
expect(first.data !== undefined && "action" in first.data, "one decision");
const banner: string | number | boolean | undefined = first.data.action.banner;
expect(banner === "plain" || banner === "loud", "an action of the specification");
const later = await client.POST("/v1/studies/{study}/decisions", { params, body: { n: 3, key: "night" } });
expect(later.data !== undefined && "items" in later.data && later.data.items.length === 3, "three decisions");

async function tell(item: components["schemas"]["OutcomeItem"]): Promise<Receipt> {
  const { data, error } = await client.POST("/v1/studies/{study}/outcomes", { params, body: { items: [item] } });
  const receipt = data?.items[0];
  expect(receipt !== undefined, error?.detail ?? "no receipt");
  return receipt;
}

// Late: three decisions were made since.
const incomplete = await tell({ id: "a", reward: 1 });
expect(incomplete.status === "incomplete" && incomplete.missing.join() === "viewed", JSON.stringify(incomplete));
const report = await client.GET("/v1/studies/{study}/report", { params });
expect(report.data?.incomplete.n === 1 && report.data.incomplete.first[0]?.key === "a", "it is counted");
expect((await tell({ id: "a", reward: null, observed: { viewed: "yes" } })).status === "applied", "it is complete");
expect((await tell({ id: "a", reward: 1, observed: { viewed: "yes" } })).status === "duplicate", "twice");
expect((await tell({ id: "a", reward: 0, observed: { viewed: "yes" } })).status === "conflict", "another outcome");
const refused = await tell({ id: "night/0", reward: 1, observed: { viewed: "perhaps" } });
expect(refused.status === "refused" && refused.errors?.[0]?.field === "/items/0/observed/viewed", JSON.stringify(refused));

const recommendation = await client.POST("/v1/studies/{study}/recommendation", { params, body: { confidence: 0.9 } });
expect(recommendation.data !== undefined, "a recommendation");
const stop: boolean | null = recommendation.data.stop;
expect(stop === null && recommendation.data.stop_reason !== "", "CPTs are learned online: no stopping rule");
expect("banner" in recommendation.data.action, "an action");

const unknown = await client.GET("/v1/studies/{study}/report", { params: { path: { study: "none" } } });
expect(unknown.error?.type === "/problems/unknown-study" && unknown.error.status === 404, JSON.stringify(unknown.error));
expect(unknown.error.errors === undefined, "errors is left out where no field is wrong");
const conflict = await client.POST("/v1/studies/{study}/decisions", { params, body: { key: "a", unit: "visitor-2" } });
expect(conflict.error?.type === "/problems/conflict", JSON.stringify(conflict));
const invalid = await client.POST("/v1/studies", { body: { name: "other", problem: { ...problem, reward: "sales" } } });
expect(invalid.error?.errors?.[0]?.field === "/problem/reward", JSON.stringify(invalid.error));
console.log("done");
