// Visitors of the shop, simulated. The outcome of a view depends on the seed, its key and its action alone.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { ask, recommend, settle, tell } from "./shop.mjs";

const [phase, seed, file] = process.argv.slice(2);
const VIEWS = 250, ROUND = 25;
const statuses = {};

function random(text) {
  return createHash("sha256").update(`${seed} ${text}`).digest().readUInt32BE() / 2 ** 32;
}

function simulate(key, action) {
  const viewed = random(`${key} viewed`) < (action.banner === "loud" ? 0.6 : 0.3);
  const sale = random(`${key} sale`) < (!viewed ? 0.05 : action.delivery === "free" ? 0.5 : 0.2);
  return { id: key, reward: sale ? 1 : 0, observed: { viewed: viewed ? "yes" : "no" } };
}

async function send(stage, items) {
  if (items.length === 0) return;
  for (const { status } of await tell(items)) {
    const name = `${stage} ${status}`;
    statuses[name] = (statuses[name] ?? 0) + 1;
  }
}

const rewards = (outcomes) => outcomes.map(({ id, reward }) => ({ id, reward }));
const observations = (outcomes) => outcomes.map(({ id, observed }) => ({ id, reward: null, observed }));

if (phase === "visit") {
  const waiting = []; // views of the round before: their outcomes come later than the next decisions
  const left = { incomplete: [], silent: [] };
  let decisions = 0;
  for (let view = 0; view < VIEWS; view += ROUND) {
    const seen = [];
    for (let k = view; k < view + ROUND; k++) {
      const decision = await ask(`view-${k}`, `visitor-${k}`);
      if (decision.id === null) continue;
      seen.push(simulate(`view-${k}`, decision.action));
      decisions += 1;
    }
    const outcomes = waiting.splice(0, ROUND, ...seen);
    await send("first", rewards(outcomes));
    await send("again", rewards(outcomes));
    await send("complete", observations(outcomes.filter((_, k) => k % 5 > 0)));
    left.incomplete.push(...outcomes.filter((_, k) => k % 5 === 0));
  }
  left.silent.push(...waiting);
  await settle();
  writeFileSync(file, JSON.stringify(left));
  console.log(JSON.stringify({ decisions, incomplete: left.incomplete.length, silent: left.silent.length, statuses }));
} else {
  const left = JSON.parse(readFileSync(file, "utf8"));
  await send("complete", observations(left.incomplete));
  await send("late", left.silent); // their window has passed
  await send("again", [...left.incomplete, ...left.silent]);
  const { action, text } = await recommend();
  console.log(JSON.stringify({ action, text, statuses }));
}
