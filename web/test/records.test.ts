/** Records become rows within their domain, or are refused; what is drawn at random is uniform. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { countRecords, RecordsError, type ClientRecord } from "../src/index.js";
import { randomBelow } from "../src/bytes.js";
import { isSaidInAll, taskFor } from "./support.js";

const LABELED = { groups: ["a", "b"], labels: ["0", "1"], max_count: 100 };
const VALUED = { groups: ["a", "b"], values: { low: 0, high: 1, steps: 8 } };
const RECORD = { group: "a", label: "1" };

/** What is written down, as a page may hand it over, before types say what it is. */
function asRecords(text: string): readonly ClientRecord[] {
  return JSON.parse(text);
}

const REFUSED: readonly (readonly [RegExp, object, string, string])[] = [
  [/group 'c' is not declared \(declared: a, b\)/, LABELED, "split", '[{"group": "c", "label": "1"}]'],
  [/Record 2: label '2'/, LABELED, "split", '[{"group": "a", "label": "1"}, {"group": "a", "label": "2"}]'],
  [/unknown field 'age'/, LABELED, "split", '[{"group": "a", "label": "1", "age": 3}]'],
  [/unknown field 'scores'/, LABELED, "split", '[{"group": "a", "label": "1", "scores": [1]}]'],
  [/has no label/, LABELED, "split", '[{"group": "a"}]'],
  [/label '1' is not declared/, LABELED, "split", '[{"group": "a", "label": 1}]'],
  [/2 records, and a client of this task has at most 1/, { ...LABELED, max_count: 1 }, "split",
    '[{"group": "a", "label": "1"}, {"group": "a", "label": "1"}]'],
  [/of two groups/, LABELED, "product", '[{"group": "a", "label": "1"}, {"group": "b", "label": "1"}]'],
  [/prediction 'x'/, { ...LABELED, predictions: true }, "split", '[{"group": "a", "label": "1", "prediction": "x"}]'],
  [/score 1.5 is not/, { ...LABELED, thresholds: 3 }, "split", '[{"group": "a", "label": "1", "scores": [1.5]}]'],
  [/score null is not/, { ...LABELED, thresholds: 3 }, "split", '[{"group": "a", "label": "1", "scores": [null]}]'],
  [/the 1 scores/, { ...LABELED, thresholds: 3 }, "split", '[{"group": "a", "label": "1", "scores": [0.5, 0.5]}]'],
  [/the 1 scores/, { ...LABELED, thresholds: 3 }, "split", '[{"group": "a", "label": "1", "scores": "1"}]'],
  [/value 2 is not/, VALUED, "split", '[{"group": "a", "value": 2}]'],
  [/value 1_0 is not/, VALUED, "split", '[{"group": "a", "value": "1_0"}]'],
  [/value 1\/0 is not/, VALUED, "split", '[{"group": "a", "value": "1/0"}]'],
  [/at most 1/, VALUED, "split", '[{"group": "a", "value": 1}, {"group": "a", "value": 1}]'],
  [/unknown field 'label'/, VALUED, "split", '[{"group": "a", "value": 1, "label": "1"}]'],
];

for (const [says, record_domain, form, text] of REFUSED) {
  test(`refused: ${says.source}`, async () => {
    const task = await taskFor({ record_domain, form });
    assert.throws(
      () => countRecords(task, asRecords(text)),
      (error) => error instanceof RecordsError && says.test(error.message) && isSaidInAll(error),
    );
  });
}

test("without records", async () => {
  const cases: readonly (readonly [object, string, readonly number[]])[] = [
    [LABELED, "split", [0, 0, 0, 0]],
    [{ ...LABELED, cap: 2 }, "slots", [0, 0]],
    [{ ...LABELED, cap: 2 }, "keys", [4, 4]],
    [{ ...LABELED, cap: "weight-one" }, "split", [0, 0, 0, 0]],
    [{ ...LABELED, sizes: true }, "slots", [0]],
    [VALUED, "split", [0, 0, 0, 0]],
    [{ ...VALUED, cap: 1 }, "slots", [0]],
  ];
  for (const [record_domain, form, row] of cases) {
    assert.deepEqual([...countRecords(await taskFor({ record_domain, form }), [])], row);
  }
});

test("a value is rounded to the nearest step, and a half to the even one", async () => {
  const task = await taskFor({ record_domain: VALUED, form: "split" });
  // A step is 1/16, from 1/2: 17/32 is half a step above the center, 19/32 one and a half.
  const expected: readonly (readonly [string, number])[] = [
    ["17/32", 8],
    ["19/32", 10],
    ["15/32", 8],
    ["13/32", 6],
    ["0.57", 9],
  ];
  for (const [value, distance] of expected) {
    assert.deepEqual([...countRecords(task, [{ group: "a", value }])], [distance, 16 - distance, 0, 0], value);
  }
});

/**
 * The bound t of Hoeffding's inequality, for a mean of n draws from 0 to 1: P(|mean - expected| > t) is at most
 * 2 exp(-2 n t^2), here 10^-9, whatever the distribution is.
 */
function slack(draws: number): number {
  return Math.sqrt(Math.log(2 / 1e-9) / (2 * draws));
}

test("a value is rounded at random so that its mean is the value", async () => {
  const record_domain = { groups: ["a", "b"], values: { low: 0, high: 1, steps: 8, rounding: "random" } };
  const task = await taskFor({ record_domain, form: "split" });
  const draws = 20000; // slack 0.023
  let above = 0;
  for (let i = 0; i < draws; i += 1) {
    const [low = 0, high = 0] = countRecords(task, [{ group: "a", value: 0.5 + 0.3 / 16 }]);
    assert.ok(low + high === 16 && (low === 8 || low === 9));
    above += low - 8;
  }
  assert.ok(Math.abs(above / draws - 0.3) < slack(draws));
});

test("each record is in a slot, or a uniform choice of them is", async () => {
  const record_domain = { groups: ["a", "b"], labels: ["0", "1"], max_count: 100, cap: 2 };
  const task = await taskFor({ record_domain, form: "slots" });
  const records = [RECORD, { group: "b", label: "0" }, { group: "b", label: "1" }]; // codes 2, 3, 4
  const draws = 20000;
  const first = new Map<number, number>();
  for (let i = 0; i < draws; i += 1) {
    const [one = 0, two = 0] = countRecords(task, records);
    assert.ok(one !== two && [2, 3, 4].includes(one) && [2, 3, 4].includes(two));
    first.set(one * 10 + two, (first.get(one * 10 + two) ?? 0) + 1);
  }
  assert.equal(first.size, 6);
  first.forEach((count) => assert.ok(Math.abs(count / draws - 1 / 6) < slack(draws)));
  let filled = 0;
  for (let i = 0; i < draws; i += 1) {
    const row = countRecords(task, [RECORD, RECORD]);
    assert.deepEqual([...row], [2, 2]);
    filled += countRecords(task, [RECORD])[0] === 2 ? 1 : 0;
  }
  assert.equal(filled, draws, "a client with fewer records than slots has them in the first slots");
});

test("with the cap weight-one a client's records share all slots", async () => {
  const record_domain = { groups: ["a", "b"], labels: ["0", "1"], max_count: 100, cap: "weight-one" };
  const task = await taskFor({ record_domain, form: "split" });
  const even = [RECORD, { group: "b", label: "0" }, { group: "b", label: "1" }];
  assert.deepEqual([...countRecords(task, even)], [0, 20, 20, 20]);
  const draws = 20000;
  const seven = [...Array.from({ length: 4 }, () => RECORD), ...Array.from({ length: 3 }, () => ({ group: "b", label: "0" }))];
  let mean = 0;
  for (let i = 0; i < draws; i += 1) {
    const [, own = 0, other = 0] = countRecords(task, seven);
    assert.equal(own + other, 60);
    assert.ok(own === 34 || own === 35); // 60 * 4 / 7 is 34.3
    mean += own - 34;
  }
  assert.ok(Math.abs(mean / draws - 2 / 7) < slack(draws));
});

test("numbers below a bound are uniform", () => {
  const draws = 30000;
  const counts = [0, 0, 0];
  for (let i = 0; i < draws; i += 1) {
    const drawn = randomBelow(3);
    counts[drawn] = (counts[drawn] ?? 0) + 1;
  }
  counts.forEach((count) => assert.ok(Math.abs(count / draws - 1 / 3) < slack(draws)));
  // Of 3 * 2^30 numbers, words modulo that bound would be in the first third half of the time.
  const large = 3 * 2 ** 30;
  let low = 0;
  for (let i = 0; i < draws; i += 1) {
    low += randomBelow(large) < 2 ** 30 ? 1 : 0;
  }
  assert.ok(Math.abs(low / draws - 1 / 3) < slack(draws));
});
