/** Shares add up in every arithmetic, secrets are wiped, and what cannot be sealed is refused. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { ascii, fromHex, toHex } from "../src/bytes.js";
import { ARITHMETICS, encoded, expanded, takeAway, type ArithmeticName } from "../src/elements.js";
import { OptionError, readTask, RecordsError, seal, TaskError, type Policy } from "../src/index.js";
import { fileWith, TASK_TEXT, taskWith } from "./support.js";

const P = 2n ** 127n - 1n;

/** Return a - b as the specification defines it, by exact integers. */
function difference(name: ArithmeticName, a: bigint, b: bigint): bigint {
  switch (name) {
    case "ring64":
      return BigInt.asUintN(64, a - b);
    case "xor64":
      return a ^ b;
    case "field127":
      return (((a - b) % P) + P) % P;
  }
}

function toElement(value: bigint, size: number): Uint8Array<ArrayBuffer> {
  return fromHex(value.toString(16).padStart(2 * size, "0")).reverse();
}

function fromElement(bytes: Uint8Array): bigint {
  return BigInt(`0x${toHex(bytes.slice().reverse())}`);
}

test("subtraction is that of exact integers, at all edges", () => {
  for (const name of ["ring64", "xor64", "field127"] as const) {
    const arithmetic = ARITHMETICS[name];
    const modulus = name === "field127" ? P : 2n ** 64n;
    const edges = [0n, 1n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 63n, modulus / 2n, modulus - 2n, modulus - 1n];
    for (const a of edges) {
      for (const b of edges) {
        const rest = toElement(a, arithmetic.elementBytes);
        arithmetic.subtract(new DataView(rest.buffer), new DataView(toElement(b, arithmetic.elementBytes).buffer), 0);
        assert.equal(fromElement(rest), difference(name, a, b), `${name}: ${a} - ${b}`);
      }
    }
  }
});

test("in the field the highest bit is ignored, and all ones stand for 0", () => {
  const cases: readonly (readonly [bigint, bigint])[] = [
    [P, 0n],
    [2n ** 128n - 1n, 0n],
    [2n ** 127n, 0n],
    [2n ** 127n + 5n, 5n],
    [P - 1n, P - 1n],
  ];
  for (const [raw, element] of cases) {
    const bytes = toElement(raw, 16);
    ARITHMETICS.field127.reduce(new DataView(bytes.buffer), 0);
    assert.equal(fromElement(bytes), element);
  }
});

test("a seed stands for AES-256's stream in counter mode", async () => {
  // The first two blocks of SP 800-38A's AES-256 key, encrypted from a counter of 0: computed with OpenSSL.
  const seed = fromHex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
  const row = await expanded(seed, 4, ARITHMETICS.ring64);
  assert.equal(toHex(row), "e568f68194cf76d6174d4cc04310a85491151e5d0b7a1f1bc0d7acd0ae3e51e4");
});

test("what is taken away and the rest add up", async () => {
  for (const name of ["ring64", "xor64", "field127"] as const) {
    const arithmetic = ARITHMETICS[name];
    const values = [0, 1, 2 ** 32, 2 ** 53 - 1];
    const rest = encoded(Float64Array.from(values), arithmetic);
    const seed = crypto.getRandomValues(new Uint8Array(32));
    await takeAway(rest, seed, arithmetic);
    const share = await expanded(seed, values.length, arithmetic);
    values.forEach((value, i) => {
      const [at, end] = [i * arithmetic.elementBytes, (i + 1) * arithmetic.elementBytes];
      const restored = difference(name, fromElement(rest.slice(at, end)), difference(name, 0n, fromElement(share.slice(at, end))));
      assert.equal(restored, BigInt(value));
    });
  }
});

test("secrets are overwritten once they are sealed", async () => {
  const task = await readTask(ascii(TASK_TEXT));
  const row = Float64Array.of(1, 2, 3, 4);
  const drawn: Uint8Array[] = [];
  const draw = crypto.getRandomValues.bind(crypto);
  const spied = mock.method(crypto, "getRandomValues", <T extends ArrayBufferView<ArrayBuffer>>(array: T): T => {
    if (array instanceof Uint8Array && [16, 32].includes(array.length)) {
      drawn.push(array);
    }
    draw(array);
    return array;
  });
  await seal(task, row);
  spied.mock.restore();
  assert.deepEqual([...row], [0, 0, 0, 0]);
  assert.ok(drawn.length >= 5, "two seeds and three salts");
  drawn.forEach((bytes) => assert.ok(bytes.every((byte) => byte === 0)));
});

test("the row is overwritten, too, where nothing is sealed", async () => {
  const row = Float64Array.of(1, 2, 3, 4);
  const task = await readTask(ascii(TASK_TEXT));
  await assert.rejects(seal(task, row, { now: new Date("9999-12-31T23:59:59Z"), bounds: NO_BOUNDS }), OptionError);
  assert.deepEqual([...row], [0, 0, 0, 0]);
});

const NO_BOUNDS: Policy = { tasks: [], epsilon: "1", delta: "0", unit: "record" };
const BOUNDS: Policy = { tasks: ["weights"], epsilon: "1/3", delta: "0", unit: "client" };

test("no envelope repeats another, and lengths tell nothing", async () => {
  const task = await readTask(ascii(TASK_TEXT));
  const zeros = await seal(task, new Float64Array(4));
  const bounded = await seal(task, Float64Array.of(1, 2, 3, 2 ** 53 - 1), { bounds: BOUNDS });
  assert.notEqual(zeros.identity, bounded.identity);
  assert.deepEqual(
    zeros.envelopes.map((envelope) => envelope.length),
    bounded.envelopes.map((envelope) => envelope.length),
  );
});

test("rows that are none of the task's are refused", async () => {
  const task = await readTask(ascii(TASK_TEXT));
  for (const row of [[1, 2, 3], [1, 2, 3, -1], [1, 2, 3, 0.5], [1, 2, 3, 2 ** 53], [1, 2, 3, Number.NaN]]) {
    await assert.rejects(seal(task, Float64Array.from(row)), RecordsError);
  }
});

test("bounds name releases of the task, and fit into an envelope", async () => {
  const task = await readTask(ascii(TASK_TEXT));
  const row = (): Float64Array => new Float64Array(4);
  await assert.rejects(seal(task, row(), { bounds: { ...BOUNDS, tasks: ["gap"] } }), /some of the task's releases/);
  await assert.rejects(seal(task, row(), { bounds: { ...BOUNDS, epsilon: "0.5" } }), /exact numbers/);
  await assert.rejects(seal(task, row(), { bounds: { ...BOUNDS, epsilon: `1/1${"0".repeat(150)}` } }), /too much room/);
});

test("nothing is sealed after the last day, nor for an expired key", async () => {
  const task = await taskWith({ until: "2027-06-30" });
  await seal(task, new Float64Array(4), { now: new Date("2027-06-30T23:59:59Z") });
  await assert.rejects(seal(task, new Float64Array(4), { now: new Date("2027-07-01T00:00:00Z") }), /ended on 2027-06-30/);
});

test("clients seal for the first key, by its last day, that has not expired", async () => {
  const parties: readonly Record<string, unknown>[] = JSON.parse(TASK_TEXT).parties;
  const keys = parties.map((party) => JSON.parse(JSON.stringify(party["keys"]))[0].public);
  const [first, second, third] = keys;
  const two = { ...parties[0], keys: [{ public: second, until: "2027-12-31" }, { public: first, until: "2027-06-30" }] };
  const one = { ...parties[1], keys: [{ public: third, until: "2027-12-31" }] };
  const task = await readTask(fileWith({ parties: [two, one], security: "semi2k", until: "2029-12-31" }));
  const idOn = async (day: string): Promise<string> => {
    const { envelopes } = await seal(task, new Float64Array(4), { now: new Date(`${day}T12:00:00Z`) });
    return toHex(envelopes[0]?.slice(68, 76) ?? new Uint8Array(0));
  };
  const early = await idOn("2027-06-30");
  const late = await idOn("2027-07-01");
  assert.notEqual(early, late);
  assert.equal(await idOn("2027-01-01"), early);
  await assert.rejects(idOn("2028-01-01"), (error) => error instanceof TaskError && /expired/.test(error.message));
});
