/** Tasks and rows for tests: the project's known answers, and changes of these. */

import { readFileSync } from "node:fs";

import { ascii, type Bytes } from "../src/bytes.js";
import { inWords, LANGUAGES, readTask, type ClientRecord, type FairSharesError, type Task } from "../src/index.js";
import { canonicalJson, isObject, parseJson, type JsonValue } from "../src/json.js";

/** A client's records in a domain, and the row that it shares. */
export interface KnownRow {
  readonly what: string;
  readonly record_domain: unknown;
  readonly form: string;
  readonly records: readonly ClientRecord[];
  readonly row: readonly number[];
}

/** An envelope, what opens it, and what is in it or why it is left out. */
export interface KnownEnvelope {
  readonly name: string;
  readonly task: string;
  readonly party: number;
  readonly keys: Readonly<Record<string, string>>;
  readonly envelope: string;
  readonly identity?: string;
  readonly elements?: readonly number[];
  readonly left_out?: string;
}

const FIXTURES = new URL("../../tests/fixtures/", import.meta.url); // from build/, where tests run, too

export const KNOWN_ROWS: readonly KnownRow[] = JSON.parse(readFileSync(new URL("rows.json", FIXTURES), "utf-8"));
export const ENVELOPES_TEXT = readFileSync(new URL("envelopes-3.json", FIXTURES), "utf-8");
export const KNOWN_ENVELOPES: readonly KnownEnvelope[] = JSON.parse(ENVELOPES_TEXT);
export const TASK_TEXT = KNOWN_ENVELOPES[0]?.task ?? "";
export const HYBRID_TASK_TEXT = KNOWN_ENVELOPES.find(({ name }) => name.startsWith("hybrid"))?.task ?? "";

/** Return a task's file with other values of some keys, in the form that tasks have; undefined takes a key away. */
export function fileWith(changes: Readonly<Record<string, unknown>>, text: string = TASK_TEXT): Bytes {
  const fields = new Map(fieldsOf(parseJson(text)));
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) {
      fields.delete(name);
    } else {
      fields.set(name, parseJson(JSON.stringify(value)));
    }
  }
  return ascii(`${canonicalJson(fields)}\n`);
}

export function taskWith(changes: Readonly<Record<string, unknown>>, text: string = TASK_TEXT): Promise<Task> {
  return readTask(fileWith(changes, text));
}

/** Return a task for the domain and the form of a known row. */
export function taskFor(known: Pick<KnownRow, "record_domain" | "form">): Promise<Task> {
  return taskWith({
    record_domain: known.record_domain,
    form: known.form,
    arithmetic: known.form === "slots" ? "xor64" : "ring64",
  });
}

/** Return whether an error is one sentence in each language, in other words, with all values filled in. */
export function isSaidInAll(error: FairSharesError): boolean {
  const said = LANGUAGES.map((language) => inWords(error.sentence, language));
  return new Set(said).size === LANGUAGES.length && said.every((text) => /^\p{Lu}.*[.]$/su.test(text) && !/\{\w+\}/.test(text));
}

function fieldsOf(value: JsonValue): ReadonlyMap<string, JsonValue> {
  if (!isObject(value)) {
    throw new Error("a task is an object");
  }
  return value;
}
