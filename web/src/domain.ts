/** What clients declare about their records, and how many values they share for it. */

import { Fields, notATask } from "./fields.js";
import { JsonNumber, sortedByCodePoint, type JsonValue } from "./json.js";

export type FormName = "split" | "product" | "keys" | "slots";

export type Rounding = "nearest" | "random";

/** A range of performance values, with so many steps on each side of its center. */
export interface ValueGrid {
  readonly low: number;
  readonly high: number;
  readonly steps: number;
  readonly rounding: Rounding;
}

/** The number of a client's slots, and whether all its records share them, so that it weighs 1. */
export interface Cap {
  readonly slots: number;
  readonly weightOne: boolean;
}

/** What a record has besides group and label. */
export type Detail =
  | { readonly kind: "none" }
  | { readonly kind: "score"; readonly thresholds: readonly number[] }
  | { readonly kind: "prediction" }
  | { readonly kind: "value"; readonly grid: ValueGrid }
  | { readonly kind: "size" };

/** Public facts about records, the same for all clients. */
export interface RecordDomain {
  readonly groups: readonly string[]; // at least two, sorted by code points
  readonly labels: readonly string[]; // likewise, and none with performance values
  readonly maxCount: bigint; // the most records of a client, 1 to 2^62 - 1
  readonly detail: Detail;
  readonly cap: Cap | null;
}

const KEYS = ["cap", "groups", "labels", "max_count", "predictions", "sizes", "thresholds", "values"];
const DEFAULT_MAX_COUNT = 2n ** 31n;
const MAX_TOTAL = 2n ** 62n;
const MAX_THRESHOLDS = 4096;
const MAX_STEPS = 10 ** 5;
const DEFAULT_STEPS = 1000;
const MAX_CAP = 1000;
const WEIGHT_SLOTS = 60;
const SMALLEST_NORMAL = 2.2250738585072014e-308;

/** Return the domain in a task's `record_domain`, or raise TaskError. */
export function domainOf(value: JsonValue): RecordDomain {
  const fields = Fields.of(value, "placeDomain", KEYS);
  const detail = detailOf(fields);
  const isValue = detail.kind === "value";
  const domain: RecordDomain = {
    groups: sortedByCodePoint(fields.texts("groups")),
    labels: isValue && !fields.has("labels") ? [] : sortedByCodePoint(fields.texts("labels")),
    maxCount: fields.has("max_count") ? fields.whole("max_count") : isValue ? 1n : DEFAULT_MAX_COUNT,
    detail,
    cap: fields.has("cap") ? capOf(fields.value("cap")) : null,
  };
  checkDomain(domain);
  return domain;
}

/** Return how many scores a record has: one per label if there are more than two. */
export function scoresOf(domain: RecordDomain): number {
  return domain.detail.kind === "score" && domain.labels.length > 2 ? domain.labels.length : 1;
}

/** Return the number of details of a record, D. */
export function detailsOf(domain: RecordDomain): number {
  switch (domain.detail.kind) {
    case "score":
      return domain.detail.thresholds.length;
    case "prediction":
      return domain.labels.length;
    default:
      return 1;
  }
}

/** Return the number of cells of records with a label. */
export function cellsOf(domain: RecordDomain): number {
  const scores = scoresOf(domain);
  const labels = scores > 1 ? 2 : domain.labels.length;
  return scores * domain.groups.length * labels * detailsOf(domain);
}

/** Return the length of a client's row, or raise TaskError for a form that has no row for such records. */
export function columnsOf(domain: RecordDomain, form: FormName): number {
  const kind = domain.detail.kind;
  const slots = domain.cap?.slots;
  switch (form) {
    case "split":
      return kind === "value" ? 2 * domain.groups.length : cellsOf(domain);
    case "product":
      if (kind === "prediction") {
        throw notATask("domainLength");
      }
      if (kind !== "none" || slots !== undefined) {
        throw noRow(form);
      }
      return domain.groups.length - 1 + domain.labels.length;
    case "keys":
      if (slots === undefined) {
        throw notATask("domainLength");
      }
      if (kind === "value") {
        throw noRow(form);
      }
      return slots;
    case "slots":
      if (kind === "size") {
        return 1;
      }
      if (slots === undefined) {
        throw notATask("domainSlots");
      }
      return slots;
  }
}

function noRow(form: FormName): Error {
  return notATask("domainRow", { form });
}

function detailOf(fields: Fields): Detail {
  const details: Detail[] = [];
  if (fields.has("thresholds")) {
    details.push({ kind: "score", thresholds: thresholdsOf(fields) });
  }
  if (fields.has("predictions") && fields.truth("predictions")) {
    details.push({ kind: "prediction" });
  }
  if (fields.has("values")) {
    details.push({ kind: "value", grid: gridOf(fields.value("values")) });
  }
  if (fields.has("sizes") && fields.truth("sizes")) {
    details.push({ kind: "size" });
  }
  if (details.length > 1) {
    throw notATask("domainDetails");
  }
  return details[0] ?? { kind: "none" };
}

/** Return the thresholds, with 0 before the first one of a list that does not begin with it. */
function thresholdsOf(fields: Fields): readonly number[] {
  const value = fields.value("thresholds");
  if (value instanceof JsonNumber) {
    const count = fields.whole("thresholds");
    if (count < 2n || count > MAX_THRESHOLDS) {
      throw notATask("domainThresholds", { count, most: MAX_THRESHOLDS });
    }
    const last = Number(count) - 1;
    return Array.from({ length: Number(count) }, (_, j) => j / last);
  }
  const listed = fields.numbers("thresholds");
  const first = listed[0];
  if (first === undefined || listed.some((threshold) => threshold < 0 || threshold > 1)) {
    throw notATask("domainThresholdList");
  }
  if (listed.some((threshold, i) => i > 0 && threshold <= (listed[i - 1] ?? 0))) {
    throw notATask("domainThresholdOrder");
  }
  const thresholds = first === 0 ? listed : [0, ...listed];
  if (thresholds.length < 2 || thresholds.length > MAX_THRESHOLDS) {
    throw notATask("domainThresholdNumber", { most: MAX_THRESHOLDS - 1 });
  }
  return thresholds;
}

function gridOf(value: JsonValue): ValueGrid {
  const fields = Fields.of(value, "placeValues", ["high", "low", "rounding", "steps"]);
  const rounding = fields.has("rounding") ? fields.text("rounding") : "nearest";
  const steps = fields.has("steps") ? fields.whole("steps") : BigInt(DEFAULT_STEPS);
  const low = fields.number("low");
  const high = fields.number("high");
  if (rounding !== "nearest" && rounding !== "random") {
    throw notATask("domainRounding");
  }
  if (!(low < high)) {
    throw notATask("domainRange");
  }
  if (steps < 1n || steps > MAX_STEPS) {
    throw notATask("domainSteps", { steps, most: MAX_STEPS });
  }
  if ((high / 2 - low / 2) / Number(steps) < SMALLEST_NORMAL) {
    throw notATask("domainNarrow");
  }
  return { low, high, steps: Number(steps), rounding };
}

function capOf(value: JsonValue): Cap {
  if (value === "weight-one") {
    return { slots: WEIGHT_SLOTS, weightOne: true };
  }
  if (!(value instanceof JsonNumber) || !value.isWhole || value.exact < 1n || value.exact > MAX_CAP) {
    throw notATask("domainCap", { most: MAX_CAP });
  }
  return { slots: Number(value.exact), weightOne: false };
}

function checkDomain(domain: RecordDomain): void {
  const isValue = domain.detail.kind === "value";
  const isOneSlot = domain.cap === null || (domain.cap.slots === 1 && !domain.cap.weightOne);
  if (isValue && (domain.labels.length > 0 || domain.maxCount !== 1n || !isOneSlot)) {
    throw notATask("domainValue");
  }
  if (domain.maxCount < 1n || domain.maxCount >= MAX_TOTAL) {
    throw notATask("domainMaxCount");
  }
  if (domain.cap !== null && (scoresOf(domain) > 1 || domain.detail.kind === "size")) {
    throw notATask("domainCapOfScores");
  }
  checkNames(domain.groups, "groups");
  if (!isValue) {
    checkNames(domain.labels, "labels");
  }
}

function checkNames(names: readonly string[], key: "groups" | "labels"): void {
  if (names.length < 2 || new Set(names).size < names.length || names.includes("")) {
    throw notATask("domainNames", { key });
  }
}
