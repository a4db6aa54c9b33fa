/** What is no task of this version is refused in one sentence, and what a task means is said. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ascii } from "../src/bytes.js";
import { explain, readTask, TaskError } from "../src/index.js";
import { fileWith, HYBRID_TASK_TEXT, isSaidInAll, KNOWN_ENVELOPES, TASK_TEXT, taskWith } from "./support.js";

const DOMAIN = { groups: ["a", "b"], labels: ["0", "1"], max_count: 10 };
const POLICY = { tasks: ["weights"], epsilon: "1", delta: "1/1024", unit: "record" };
const PARTIES: readonly Record<string, unknown>[] = JSON.parse(TASK_TEXT).parties;
const HYBRID_PARTIES: readonly Record<string, unknown>[] = JSON.parse(HYBRID_TASK_TEXT).parties;

/** Return the parties with another field of the first one. */
function partiesWith(changes: Readonly<Record<string, unknown>>): unknown[] {
  return [{ ...PARTIES[0], ...changes }, ...PARTIES.slice(1)];
}

function withKey(key: Readonly<Record<string, unknown>>): unknown[] {
  return partiesWith({ keys: [key] });
}

const until = "2030-01-01";
const REFUSED: Readonly<Record<string, readonly [RegExp, Readonly<Record<string, unknown>>]>> = {
  "another version": [/schema 2, and this version reads 1/, { schema: 2 }],
  "a version that is a text": [/'schema' of it is not a whole number/, { schema: "1" }],
  "an unknown key": [/unknown key 'more'/, { more: 1 }],
  "a missing key": [/no key 'until'/, { until: undefined }],
  "an unknown form": [/its form/, { form: "rows" }],
  "an unknown arithmetic": [/its arithmetic/, { arithmetic: "ring32" }],
  "another model's arithmetic": [/is not that of its security model/, { arithmetic: "field127" }],
  "an unknown model": [/security model is unknown/, { security: "ccd" }],
  "a model's other number of parties": [/another number of parties/, { security: "rep4-ring" }],
  "an unknown admission": [/its admission/, { admission: "members" }],
  "other copies": [/number of copies/, { copies: 3 }],
  "a day that is none": [/no date/, { until: "2027-02-30" }],
  "no uploads": [/least uploads/, { least_uploads: 0 }],
  "one party": [/has 1 parties/, { parties: PARTIES.slice(2) }],
  "a release of a later version": [/does not know/, { policy: { ...POLICY, tasks: ["weights", "medians"] } }],
  "no release": [/allows no release/, { policy: { ...POLICY, tasks: [] } }],
  "a limit that is no number": [/exact numbers/, { policy: { ...POLICY, epsilon: "1e3" } }],
  "a limit over nothing": [/exact numbers/, { policy: { ...POLICY, delta: "1/0" } }],
  "another unit": [/neither records nor clients/, { policy: { ...POLICY, unit: "group" } }],
  "more in a policy": [/unknown key 'rounds'/, { policy: { ...POLICY, rounds: 1 } }],
  "more in a domain": [/unknown key 'ages'/, { record_domain: { ...DOMAIN, ages: [1] } }],
  "null in a domain": [/not a whole number from 1 to 1000/, { record_domain: { ...DOMAIN, cap: null } }],
  "one group": [/at least two names/, { record_domain: { ...DOMAIN, groups: ["a"] } }],
  "a group twice": [/at least two names/, { record_domain: { ...DOMAIN, groups: ["a", "a"] } }],
  "a label without a name": [/at least two names/, { record_domain: { ...DOMAIN, labels: ["", "1"] } }],
  "no records": [/max_count/, { record_domain: { ...DOMAIN, max_count: 0 } }],
  "two details": [/more than one of/, { record_domain: { ...DOMAIN, thresholds: 3, predictions: true } }],
  "one threshold": [/1 thresholds/, { record_domain: { ...DOMAIN, thresholds: 1 } }],
  "falling thresholds": [/do not rise/, { record_domain: { ...DOMAIN, thresholds: [0.5, 0.25] } }],
  "a threshold above 1": [/from 0 to 1/, { record_domain: { ...DOMAIN, thresholds: [0.5, 1.25] } }],
  "a cap of several scores": [/cap/, { record_domain: { ...DOMAIN, labels: ["a", "b", "c"], thresholds: 3, cap: 1 } }],
  "a cap beyond all": [/1 to 1000/, { record_domain: { ...DOMAIN, cap: 1001 } }],
  "a range from above": [/lower end first/, { record_domain: { groups: ["a", "b"], values: { low: 1, high: 0 } } }],
  "another rounding": [/unknown rounding/, {
    record_domain: { groups: ["a", "b"], values: { low: 0, high: 1, rounding: "down" } },
  }],
  "a value with a label": [/without a label/, { record_domain: { ...DOMAIN, values: { low: 0, high: 1 } } }],
  "a row per record": [/how many records/, { form: "keys" }],
  "slots without a cap": [/needs a cap/, { form: "slots", arithmetic: "xor64" }],
  "a product of scores": [/has no row/, { form: "product", record_domain: { ...DOMAIN, thresholds: 3 } }],
  "rows that are too long": [/too long/, {
    record_domain: { ...DOMAIN, groups: Array.from({ length: 4097 }, (_, i) => `g${i}`), thresholds: 4096 },
  }],
  "an address without a scheme": [/address/, { parties: partiesWith({ address: "http://a.example/" }) }],
  "an address without an end": [/address/, { parties: partiesWith({ address: "https://a.example" }) }],
  "a name that is not shown": [/cannot be shown/, { parties: partiesWith({ name: "a\u200bb" }) }],
  "a party without keys": [/0 keys/, { parties: partiesWith({ keys: [] }) }],
  "more in a party": [/unknown key 'owner'/, { parties: partiesWith({ owner: "me" }) }],
  "a signing key of another kind": [/signing key/, { parties: partiesWith({ signing: "00" }) }],
  "a signing key off the curve": [/signing key/, { parties: partiesWith({ signing: `02${"0".repeat(63)}1` }) }],
  "a sealing key of no digits": [/hexadecimal digits/, { parties: withKey({ public: "zz".repeat(32), until }) }],
  "a sealing key of 31 bytes": [/31 bytes/, { parties: withKey({ public: "01".repeat(31), until }) }],
  "a sealing key of low order": [/cannot be used/, { parties: withKey({ public: "00".repeat(32), until }) }],
  "the same key twice": [/do not differ/, { parties: partiesWith({ keys: PARTIES[1]?.["keys"] }) }],
  "keys of two kinds": [/of one kind/, { parties: [...PARTIES.slice(0, 2), HYBRID_PARTIES[2]] }],
};

for (const [what, [says, changes]] of Object.entries(REFUSED)) {
  test(`refused: ${what}`, async () => {
    await assert.rejects(taskWith(changes), (error) => {
      assert.ok(error instanceof TaskError);
      assert.match(error.message, says);
      assert.match(error.message, /^[^.]*(\.[^ ][^.]*)*\.$/, "one sentence");
      assert.ok(isSaidInAll(error));
      return true;
    });
  });
}

const CHANGED: Readonly<Record<string, string>> = {
  "no end of line": TASK_TEXT.trimEnd(),
  "a space": TASK_TEXT.replace(":", ": "),
  "another order": TASK_TEXT.replace(/^\{("admission":"anyone"),(.*)\}\n$/, "{$2,$1}\n"),
  "a key twice": TASK_TEXT.replace("{", '{"admission":"anyone",'),
  "a character that is not escaped": TASK_TEXT.replace("party 0", "pärty 0"),
  "half a character": TASK_TEXT.replace("party 0", "\\ud800"),
  "another form of a number": TASK_TEXT.replace('"schema":1', '"schema":1e0'),
  "nothing": "",
  "a list": "[]\n",
  "no JSON": "{\n",
  "a depth without an end": "[".repeat(10 ** 6),
};

for (const [what, text] of Object.entries(CHANGED)) {
  test(`refused: ${what}`, async () => {
    assert.notEqual(text, TASK_TEXT);
    await assert.rejects(readTask(new TextEncoder().encode(text)), TaskError);
  });
}

test("a hybrid key that is none is refused", async () => {
  const key: { public: string } = JSON.parse(HYBRID_TASK_TEXT).parties[0].keys[0];
  for (const bad of [`ffff${key.public.slice(4)}`, key.public.slice(0, -64) + "00".repeat(32)]) {
    const parties = [{ ...HYBRID_PARTIES[0], keys: [{ public: bad, until }] }, ...HYBRID_PARTIES.slice(1)];
    await assert.rejects(readTask(fileWith({ parties }, HYBRID_TASK_TEXT)), /cannot be used/);
  }
});

test("all tasks of the known answers are read", async () => {
  for (const known of KNOWN_ENVELOPES) {
    assert.equal((await readTask(ascii(known.task))).columns, 4);
  }
});

test("what a task means is said", async () => {
  const told = await explain(await readTask(ascii(TASK_TEXT)), new Date("2027-01-01T12:00:00Z"));
  assert.equal(told.parties.length, 3);
  assert.deepEqual([told.readersOfResults, told.readersOfUploads, told.isHybrid, told.isOver], [2, 3, false, false]);
  assert.ok(told.sentences.every((sentence) => sentence.endsWith(".")));
  assert.match(told.sentences.join(" "), /spend at most ε = 4 and δ = 1\/1048576, per record/);
  const german = await explain(await readTask(ascii(TASK_TEXT)), new Date("2027-01-01T12:00:00Z"), "de");
  assert.equal(german.sentences.length, told.sentences.length);
  assert.match(german.sentences.join(" "), /verbrauchen höchstens ε = 4 und δ = 1\/1048576, je Datensatz/);
  assert.ok(german.sentences.every((sentence, i) => sentence !== told.sentences[i] && !sentence.includes("{")));
  const hybrid = await explain(await readTask(ascii(HYBRID_TASK_TEXT)), new Date("2027-01-01T12:00:00Z"));
  assert.equal(hybrid.isHybrid, true);
  const over = await taskWith({ until: "2026-12-31" });
  assert.equal((await explain(over, new Date("2027-01-01T00:00:00Z"))).isOver, true);
});
