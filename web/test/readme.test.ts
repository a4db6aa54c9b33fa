/** What the README shows is what runs. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mock, test } from "node:test";

import { takePart } from "./example.js";
import { fileWith, TASK_TEXT } from "./support.js";

const PARTIES: readonly Record<string, unknown>[] = JSON.parse(TASK_TEXT).parties;

test("the README shows the example", () => {
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf-8");
  const example = readFileSync(new URL("../test/example.ts", import.meta.url), "utf-8");
  const shown = /```ts\n([^]*?)```/.exec(readme)?.[1];
  assert.equal(shown, example.replace('"../src/index.js"', '"fairshares-client"'));
});

test("the example sends an answer", async () => {
  const parties = PARTIES.map((party, i) => ({ ...party, address: `https://party-${i}.example/` }));
  const file = fileWith({ parties });
  const kept: string[] = [];
  const keep = async (_: string, party: number, state: string): Promise<void> => void kept.push(`${party} ${state}`);
  const sending = mock.method(globalThis, "fetch", async () => new Response(null, { status: 201 }));
  try {
    assert.deepEqual(await takePart(file, async () => null, keep), []);
    assert.equal(sending.mock.callCount(), 0);
    const said = await takePart(file, async (meaning) => (meaning.length > 5 ? [{ group: "a", label: "1" }] : null), keep);
    assert.deepEqual(said, ["party 0", "party 1", "party 2"].map((name) => `${name}: stored (HTTP 201)`));
    assert.deepEqual(kept.sort(), ["0 sending", "0 stored", "1 sending", "1 stored", "2 sending", "2 stored"]);
  } finally {
    sending.mock.restore();
  }
});
