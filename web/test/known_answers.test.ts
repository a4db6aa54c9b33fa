/** The project's known answers: rows of records, envelopes, and envelopes that are left out. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ascii, fromHex, toHex, type Bytes } from "../src/bytes.js";
import { countRecords, envelopeBytes, readTask, seal } from "../src/index.js";
import { openEnvelope } from "../src/opening.js";
import { ENVELOPES_TEXT, HYBRID_TASK_TEXT, KNOWN_ENVELOPES, KNOWN_ROWS, TASK_TEXT, taskFor } from "./support.js";

for (const known of KNOWN_ROWS) {
  test(`row: ${known.what}, ${known.form}`, async () => {
    const task = await taskFor(known);
    assert.deepEqual([...countRecords(task, known.records)], known.row);
    assert.equal(task.columns, known.row.length);
  });
}

for (const known of KNOWN_ENVELOPES) {
  test(`envelope: ${known.name}`, async () => {
    const task = await readTask(ascii(known.task));
    const envelope = fromHex(known.envelope);
    const keys = Object.entries(known.keys).map(([id, secret]): [string, Bytes] => [id, fromHex(secret)]);
    const opened = await openEnvelope(task, known.party, new Map(keys), envelope);
    if (known.left_out !== undefined) {
      assert.equal(opened, known.left_out);
      return;
    }
    assert.ok(typeof opened === "object");
    assert.equal(opened.identity, known.identity);
    assert.deepEqual(opened.elements.map(String), elementTexts(known.name));
    assert.equal(envelope.length, envelopeBytes(task, known.party));
  });
}

for (const [name, text] of Object.entries({ x25519: TASK_TEXT, hybrid: HYBRID_TASK_TEXT })) {
  test(`what is sealed opens: ${name}`, async () => {
    const task = await readTask(ascii(text));
    const keys = new Map<string, Bytes>();
    for (const known of KNOWN_ENVELOPES.filter((envelope) => envelope.task === text)) {
      Object.entries(known.keys).forEach(([id, secret]) => keys.set(id, fromHex(secret)));
    }
    const values = [5, 0, 2 ** 40, 2];
    const { identity, envelopes } = await seal(task, Float64Array.from(values));
    let sums = values.map(() => 0n);
    for (const [party, envelope] of envelopes.entries()) {
      const opened = await openEnvelope(task, party, keys, envelope);
      assert.ok(typeof opened === "object");
      assert.equal(opened.identity, identity);
      assert.equal(toHex(envelope.slice(36, 68)), identity);
      sums = sums.map((sum, i) => BigInt.asUintN(64, sum + (opened.elements[i] ?? 0n)));
    }
    assert.deepEqual(sums, values.map(BigInt));
  });
}

/** Return a known envelope's elements modulo 2^64, from the file's text: JSON.parse would round them. */
function elementTexts(name: string): string[] {
  const list = /"elements": \[([^\]]*)\]/.exec(ENVELOPES_TEXT.slice(ENVELOPES_TEXT.indexOf(`"${name}"`)))?.[1] ?? "";
  return list.split(",").map((number) => BigInt.asUintN(64, BigInt(number.trim())).toString());
}
