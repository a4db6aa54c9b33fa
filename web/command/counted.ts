/** A client's own count of the records that it has shared, in the file that Python's `share --counted` writes, too. */

import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import { sha256, toHex } from "../src/bytes.js";
import { OptionError, RecordsError, type ClientRecord, type ClientsRecords, type Sentence, type Task } from "../src/index.js";
import { canonicalJson, isList, isObject, JsonFault, JsonNumber, parseJson, utf8Text, type JsonValue } from "../src/json.js";
import { drawn } from "../src/table.js";
import { isOfFiles } from "./envelopes.js";
import { wayFault } from "./places.js";
import { said } from "./texts.js";
import { inTurn } from "./turns.js";

const SCHEMA = 2n;

interface Counted {
  readonly records: ReadonlyMap<string, number>; // of each client
  readonly files: readonly string[]; // the SHA-256 of each file that was shared
}

/** Raise OptionError if a client's bound cannot be counted over several uploads. */
export function checkCapIsNumber(task: Task): void {
  if (task.domain.cap?.weightOne === true) {
    throw new OptionError(said("capNoNumber"));
  }
}

/**
 * Return what a task's cap leaves of clients' records after earlier uploads, in the order of the clients.
 *
 * The file is written first, so records of an upload that fails count as shared. All uploads made with this file, even
 * at the same time, together have at most the cap of a client's records, if there is one, and come from different
 * tables. Raises RecordsError for a table that was shared before, and if the file is none, or cannot be kept safe.
 *
 * @param table the file of the records
 */
export async function recordsLeft(
  task: Task,
  read: ClientsRecords,
  table: { readonly name: string; readonly bytes: Uint8Array },
  file: string,
  say: (line: string) => void,
): Promise<readonly (readonly ClientRecord[])[]> {
  const directory = dirname(resolve(file));
  try {
    const fault = wayFault(directory);
    if (fault !== null) {
      throw new RecordsError(said("countedReplaceable", { fault, file }));
    }
    const digest = toHex(await sha256(table.bytes));
    return await inTurn(directory, async () => left(task, read, { name: table.name, digest }, file), say);
  } catch (error) {
    throw isOfFiles(error) ? new RecordsError(said("countedUnwritten", { file, code: error.code })) : error;
  }
}

function left(
  task: Task,
  read: ClientsRecords,
  table: { readonly name: string; readonly digest: string },
  file: string,
): readonly (readonly ClientRecord[])[] {
  const before: Counted = existsSync(file) ? countedIn(file) : { records: new Map(), files: [] };
  if (before.files.includes(table.digest)) {
    throw new RecordsError(said("countedBefore", { table: table.name, file }));
  }
  const records = new Map(before.records);
  const kept = read.clients.map((own, i) => {
    const name = read.names[i] ?? "";
    const earlier = records.get(name) ?? 0;
    const most = Math.max((task.domain.cap?.slots ?? Infinity) - earlier, 0);
    const shared = own.length > most ? drawn(own, most) : own;
    if (shared.length > 0) {
      records.set(name, earlier + shared.length);
    }
    return shared;
  });
  write(file, { records, files: [...before.files, table.digest] });
  return kept;
}

/** Return what a file says, or raise RecordsError. */
function countedIn(file: string): Counted {
  let value: JsonValue;
  try {
    value = parseJson(utf8Text(readFileSync(file)));
  } catch (error) {
    throw error instanceof JsonFault ? refused(file, error.sentence) : error;
  }
  if (!isObject(value)) {
    throw refused(file, said("countedObject"));
  }
  const schema = value.get("schema");
  if (!(schema instanceof JsonNumber) || !schema.isWhole || schema.exact !== SCHEMA) {
    throw refused(file, said("countedSchema", { schema: SCHEMA }));
  }
  const records = value.get("records") ?? new Map<string, JsonValue>();
  const files = value.get("files") ?? [];
  const hasMore = [...value.keys()].some((name) => !["schema", "records", "files"].includes(name));
  if (hasMore || !isObject(records) || !isList(files)) {
    throw refused(file, said("countedKeys"));
  }
  const counts = [...records].map(([name, count]): [string, number] => [name, countOf(count, file)]);
  return { records: new Map(counts), files: files.map((name) => textOf(name, file)) };
}

function countOf(value: JsonValue, file: string): number {
  if (!(value instanceof JsonNumber) || !value.isWhole || value.exact < 0n || !Number.isSafeInteger(value.value)) {
    throw refused(file, said("countedCount"));
  }
  return value.value;
}

function textOf(value: JsonValue, file: string): string {
  if (typeof value !== "string") {
    throw refused(file, said("countedFile"));
  }
  return value;
}

function refused(file: string, fault: Sentence): RecordsError {
  return new RecordsError(said("countedOther", { file, fault }));
}

/** Write or replace the file as a whole, for this user's eyes alone. */
function write(file: string, { records, files }: Counted): void {
  const counts = [...records].map(([name, count]): [string, JsonValue] => [name, new JsonNumber(String(count))]);
  const fields = new Map<string, JsonValue>([
    ["schema", new JsonNumber(String(SCHEMA))],
    ["records", new Map(counts)],
    ["files", files],
  ]);
  const place = mkdtempSync(join(dirname(resolve(file)), ".partial-"));
  try {
    const made = join(place, "counted");
    writeFileSync(made, `${canonicalJson(fields)}\n`, { mode: 0o600, flush: true });
    renameSync(made, file);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}
