// Each line with a comment "error" is refused by the compiler, with this code; no other line is.
import createClient from "openapi-fetch";
import type { components, paths } from "./service.js";

type Schemas = components["schemas"];
const client = createClient<paths>({ baseUrl: "" });
const params = { path: { study: "shop" } };

export const misspelled: Schemas["ProblemSpecification"] = { manipulable: ["a"], rewards: "sale" }; // error 2561
export const incomplete: Schemas["ProblemSpecification"] = { graph: "a -> sale" }; // error 2741
export const values: Schemas["ProblemSpecification"] = { manipulable: ["a"], values: { a: "x" } }; // error 2322
export const study: Schemas["CreateStudyRequest"] = { name: "shop", problem: { manipulable: { a: [[]] } } }; // error 2322
export const budget: Schemas["CreateStudyRequest"]["budget"] = [1]; // error 2322
export const outcome: Schemas["OutcomeItem"] = { id: 1, reward: "yes" }; // error 2322
export const ask: Schemas["AskRequest"] = { contxt: {} }; // error 2561
export const observed: Schemas["OutcomeItem"] = { id: 1, reward: 0, parents: {} }; // error 2353
export const stop: boolean = (null as unknown as Schemas["Recommendation"]).stop; // error 2322
export const status = (receipt: Schemas["OutcomeResponse"]) => receipt.status === "done"; // error 2367
export const errors = (problem: Schemas["ProblemDetails"]) => problem.errors.length; // error 18048
await client.POST("/v1/studies/{study}/decisions", { params, body: { key: 1 } }); // error 2322
await client.POST("/v1/studies/{study}/outcomes", { params, body: { items: [{ id: 1 }] } }); // error 2322
await client.POST("/v1/study", { body: {} }); // error 2345
