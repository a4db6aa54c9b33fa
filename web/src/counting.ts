/** A client's records as the row of whole numbers that it shares. */

import { randomBelow, randomFraction } from "./bytes.js";
import { cellsOf, detailsOf, scoresOf, type Cap, type RecordDomain, type ValueGrid } from "./domain.js";
import { RecordsError } from "./errors.js";
import type { Sentence } from "./sentences.js";
import type { Task } from "./task.js";
import { said, type TextKey } from "./texts.js";

/** One record. Which of the optional fields it has follows from the task; no field is left over. */
export interface ClientRecord {
  readonly group: string;
  readonly label?: string;
  readonly scores?: readonly number[]; // from 0 to 1: one, or one per label in their sorted order if there are more than two
  readonly prediction?: string;
  readonly value?: number | string; // a number, or a fraction such as "3/4"
}

const FIELDS: Readonly<Record<RecordDomain["detail"]["kind"], readonly string[]>> = {
  none: ["group", "label"],
  score: ["group", "label", "scores"],
  prediction: ["group", "label", "prediction"],
  value: ["group", "value"],
  size: ["group", "label"],
};
const MOST_CANDIDATE = 1000n;
const NUMBER = /^\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i;

/**
 * Return the row of numbers that a client shares for its records, each from 0 to 2^53 - 1.
 *
 * Where a task's records are drawn or rounded at random, each call draws anew. So it is called once, right before
 * `seal`, which overwrites the row.
 *
 * Raises RecordsError for a record outside of the task's domain, and for more records than a client may have.
 */
export function countRecords(task: Task, records: readonly ClientRecord[]): Float64Array {
  const domain = task.domain;
  const most = domain.maxCount;
  if (BigInt(records.length) > most) {
    throw new RecordsError(said("recordsMany", { records: records.length, most }));
  }
  records.forEach((record, i) => checkFields(record, placeOfRecord(i), domain));
  if (domain.detail.kind === "value") {
    return valueRow(task, domain.detail.grid, records);
  }
  const cells = records.map((record, i) => cellsOfRecord(domain, record, placeOfRecord(i)));
  switch (task.form) {
    case "split":
      return countedCells(domain, cells.flat());
    case "product":
      return productRow(domain, records);
    case "keys":
      return slotsRow(domain, cells.flat(), (cell) => cell ?? cellsOf(domain));
    case "slots":
      if (domain.detail.kind === "size") {
        return Float64Array.of(exceededBounds(most, records.length));
      }
      return slotsRow(domain, cells.flat(), (cell) => (cell === null ? 0 : cell + 1));
  }
}

/** Return the cells of a record: one, or one per score. */
function cellsOfRecord(domain: RecordDomain, record: ClientRecord, where: Sentence): number[] {
  const group = placeOf(domain.groups, record.group, "whatGroup", where);
  const label = placeOf(domain.labels, record.label, "whatLabel", where);
  const details = detailsOf(domain);
  const pair = group * domain.labels.length + label;
  if (domain.detail.kind === "prediction") {
    return [pair * details + placeOf(domain.labels, record.prediction, "whatPrediction", where)];
  }
  if (domain.detail.kind !== "score") {
    return [pair];
  }
  const reached = reachedThresholds(domain.detail.thresholds, record.scores ?? [], scoresOf(domain), where);
  if (reached.length === 1) {
    return reached.map((detail) => pair * details + detail);
  }
  return reached.map((detail, k) => {
    const isLabel = k === label ? 1 : 0;
    return ((k * domain.groups.length + group) * 2 + isLabel) * details + detail;
  });
}

/** Return for each score how many thresholds it reaches, less 1. */
function reachedThresholds(
  thresholds: readonly number[],
  scores: readonly number[],
  expected: number,
  where: Sentence,
): number[] {
  if (!Array.isArray(scores) || scores.length !== expected) {
    throw new RecordsError(said("recordScores", { where, expected }));
  }
  return scores.map((score) => {
    if (typeof score !== "number" || !(score >= 0 && score <= 1)) {
      throw new RecordsError(said("recordScore", { where, score: String(score) }));
    }
    return thresholds.filter((threshold) => score >= threshold).length - 1;
  });
}

/** Return how many records, or with a cap how many slots, are in each cell. */
function countedCells(domain: RecordDomain, cells: readonly number[]): Float64Array {
  const row = new Float64Array(cellsOf(domain));
  for (const cell of domain.cap === null ? cells : chosen(domain.cap, cells)) {
    if (cell !== null) {
      row[cell] = (row[cell] ?? 0) + 1;
    }
  }
  return row;
}

function productRow(domain: RecordDomain, records: readonly ClientRecord[]): Float64Array {
  const groups = domain.groups.length;
  const row = new Float64Array(groups - 1 + domain.labels.length);
  const places = records.map((record, i) => placeOf(domain.groups, record.group, "whatGroup", placeOfRecord(i)));
  const own = places[0] ?? 0;
  if (places.some((place) => place !== own)) {
    throw new RecordsError(said("recordsGroups"));
  }
  if (own < groups - 1) {
    row[own] = 1;
  }
  records.forEach((record, i) => {
    const column = groups - 1 + placeOf(domain.labels, record.label, "whatLabel", placeOfRecord(i));
    row[column] = (row[column] ?? 0) + 1;
  });
  return row;
}

function slotsRow(
  domain: RecordDomain,
  cells: readonly number[],
  codeOf: (cell: number | null) => number,
): Float64Array {
  return Float64Array.from(domain.cap === null ? [] : chosen(domain.cap, cells), codeOf);
}

/**
 * Return the cell in each of a client's slots, or null for an empty one.
 *
 * For a plain cap these are the records in a random order, or a uniform choice of them if there are more than slots. For
 * the cap `weight-one`, slot j of 60 holds record floor((j n + u) / 60) of n sorted ones, for one uniform u below n.
 */
function chosen(cap: Cap, cells: readonly number[]): (number | null)[] {
  const count = cells.length;
  if (cap.weightOne && count > 0) {
    const sorted = [...cells].sort((a, b) => a - b);
    const start = randomBelow(count);
    return Array.from({ length: cap.slots }, (_, j) => sorted[Math.floor((j * count + start) / cap.slots)] ?? null);
  }
  const left = [...cells];
  return Array.from({ length: cap.slots }, () => {
    if (left.length === 0) {
      return null;
    }
    const place = randomBelow(left.length);
    const cell = left[place] ?? null;
    left[place] = left[left.length - 1] ?? 0;
    left.pop();
    return cell;
  });
}

/** Return the row of a client with one performance value, or with none. */
function valueRow(task: Task, grid: ValueGrid, records: readonly ClientRecord[]): Float64Array {
  const groups = task.domain.groups;
  const row = new Float64Array(task.columns);
  const record = records[0];
  if (record === undefined) {
    return row;
  }
  const group = placeOf(groups, record.group, "whatGroup", said("recordOnly"));
  const steps = stepsOf(grid, valueOf(grid, record.value));
  if (task.form === "split") {
    row[2 * group] = grid.steps + steps;
    row[2 * group + 1] = grid.steps - steps;
  } else {
    row[0] = group + 1 + (grid.steps + steps) * 2 ** groups.length.toString(2).length;
  }
  return row;
}

/** Return a value's steps from the center of the range, rounded as the grid says. */
function stepsOf(grid: ValueGrid, value: number): number {
  const center = grid.low / 2 + grid.high / 2;
  const radius = grid.high / 2 - grid.low / 2;
  const exact = Math.min(Math.max((value - center) / radius, -1), 1) * grid.steps;
  const below = Math.floor(exact);
  const fraction = exact - below;
  if (grid.rounding === "random") {
    return below + (randomFraction() < fraction ? 1 : 0);
  }
  const isHalf = fraction === 0.5;
  return below + (fraction > 0.5 || (isHalf && below % 2 !== 0) ? 1 : 0); // a half goes to the even one
}

/** Return a performance value as a number, or raise RecordsError for what is none within the range. */
function valueOf(grid: ValueGrid, value: number | string | undefined): number {
  const [top = "", bottom = "1"] = String(value).split("/", 2);
  const isNumber = NUMBER.test(top) && NUMBER.test(bottom);
  const number = isNumber ? Number(top) / Number(bottom) : Number.NaN;
  if (!(number >= grid.low && number <= grid.high)) {
    const range = { low: grid.low, high: grid.high };
    throw new RecordsError(said("recordValue", { where: said("recordOnly"), value: String(value), ...range }));
  }
  return number;
}

/** Return how many candidate bounds but the last are less than a number of records. */
function exceededBounds(maxCount: bigint, records: number): number {
  const last = Number(maxCount < MOST_CANDIDATE ? maxCount : MOST_CANDIDATE);
  const bounds = new Set([last]);
  for (let i = 0; 2 ** (i / 2) < last; i += 1) {
    const bound = Math.round(2 ** (i / 2));
    if (bound < last) {
      bounds.add(bound);
    }
  }
  return [...bounds].filter((bound) => bound < last && bound < records).length;
}

function checkFields(record: ClientRecord, where: Sentence, domain: RecordDomain): void {
  const fields = FIELDS[domain.detail.kind];
  const given = Object.keys(record);
  const expected = fields.join(", ");
  const unknown = given.find((name) => !fields.includes(name));
  if (unknown !== undefined) {
    throw new RecordsError(said("recordUnknown", { where, name: unknown, expected }));
  }
  const missing = fields.find((name) => !given.includes(name));
  if (missing !== undefined) {
    throw new RecordsError(said("recordMissing", { where, name: missing, expected }));
  }
}

function placeOfRecord(index: number): Sentence {
  return said("record", { number: index + 1 });
}

function placeOf(
  names: readonly string[],
  name: string | undefined,
  what: TextKey & `what${string}`,
  where: Sentence,
): number {
  const place = name === undefined ? -1 : names.indexOf(name);
  if (place < 0) {
    const declared = { name: String(name), names: names.join(", ") };
    throw new RecordsError(said("recordUndeclared", { where, what: said(what), ...declared }));
  }
  return place;
}
