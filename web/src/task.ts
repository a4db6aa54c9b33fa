/** A task: the public facts of many clients' uploads, in a file that never changes. */

import { fromHex, sha256, toHex } from "./bytes.js";
import { columnsOf, domainOf, type FormName, type RecordDomain } from "./domain.js";
import { isArithmetic, type ArithmeticName } from "./elements.js";
import { TaskError } from "./errors.js";
import { Fields, notATask, noTaskFor } from "./fields.js";
import { canonicalJson, JsonFault, parseJson, utf8Text, type JsonValue } from "./json.js";
import { modelOf, takes } from "./models.js";
import { isSigningKey } from "./points.js";
import { policyOf, type Policy } from "./policy.js";
import { isSealable, sealOverhead } from "./sealing.js";
import { said } from "./texts.js";

/** Which clients servers let upload. */
export type Admission = "anyone" | "certificate" | "urls";

/** A party's public sealing key in hexadecimal digits, and its last day of use, UTC. */
export interface SealingKey {
  readonly public: string;
  readonly until: string;
}

export interface Party {
  readonly name: string;
  readonly address: string; // where its uploads go, or empty
  readonly keys: readonly SealingKey[];
  readonly signing: string; // the public key of its signed lists, in hexadecimal digits
}

export interface Task {
  readonly fingerprint: string; // the SHA-256 of the file, in hexadecimal digits
  readonly security: string;
  readonly form: FormName;
  readonly arithmetic: ArithmeticName;
  readonly copies: number; // how many parties hold each component
  readonly domain: RecordDomain;
  readonly policy: Policy;
  readonly parties: readonly Party[];
  readonly leastUploads: bigint;
  readonly until: string; // the last day on which clients share, UTC
  readonly admission: Admission;
  readonly columns: number; // how many values a client shares
}

const SCHEMA = 1n;
const MOST_PARTIES = 16;
const MOST_KEYS = 256;
const MOST_VALUES = 2 ** 24;
const KEYS = [
  "admission",
  "arithmetic",
  "copies",
  "form",
  "least_uploads",
  "parties",
  "policy",
  "record_domain",
  "schema",
  "security",
  "until",
];
const ADDRESS = /^((https|s3|gs|sftp):\/\/[!-~]+\/)?$/;
const PRINTABLE = /^(?:[^\p{C}\p{Z}]| )*$/u;
const FORMS: readonly string[] = ["split", "product", "keys", "slots"] satisfies readonly FormName[];
const ADMISSIONS: readonly string[] = ["anyone", "certificate", "urls"] satisfies readonly Admission[];

/**
 * Return the task in a file's bytes.
 *
 * Every key for which clients may seal is tried, so a runtime that cannot seal is told before anybody types anything.
 *
 * Raises TaskError for what is no task of this version, and UnsupportedError where keys cannot be used at all.
 */
export async function readTask(file: Uint8Array): Promise<Task> {
  const fields = Fields.of(parsed(file), "placeTask", KEYS);
  if (fields.whole("schema") !== SCHEMA) {
    throw notATask("taskSchema", { schema: fields.whole("schema"), known: SCHEMA });
  }
  const form = fields.text("form");
  const arithmetic = fields.text("arithmetic");
  const admission = fields.text("admission");
  if (!isForm(form) || !isArithmetic(arithmetic) || !isAdmission(admission)) {
    throw notATask("taskNames");
  }
  const domain = domainOf(fields.value("record_domain"));
  const parties = fields.list("parties").map(partyOf);
  const copies = Number(fields.whole("copies"));
  const columns = columnsOf(domain, form);
  const until = fields.text("until");
  const leastUploads = fields.whole("least_uploads");
  if (parties.length < 2 || parties.length > MOST_PARTIES) {
    throw notATask("taskParties", { parties: parties.length, most: MOST_PARTIES });
  }
  if (copies !== 1 && copies !== parties.length - 1) {
    throw notATask("taskCopies");
  }
  if (!isDate(until) || leastUploads < 1n || columns > MOST_VALUES) {
    throw notATask("taskNumbers");
  }
  const security = fields.text("security");
  checkModel(security, parties.length, arithmetic, form === "slots" && copies === 1);
  checkKeys(parties);
  await checkSealable(parties);
  return {
    fingerprint: toHex(await sha256(file)),
    security,
    form,
    arithmetic,
    copies,
    domain,
    policy: policyOf(fields.value("policy")),
    parties,
    leastUploads,
    until,
    admission,
    columns,
  };
}

/** Return the date in UTC. */
export function dayOf(now: Date): string {
  return now.toISOString().slice(0, 10);
}

/** Raise TaskError if the last day of a task is over. */
export function checkOpen(task: Task, now: Date): void {
  if (dayOf(now) > task.until) {
    throw new TaskError(said("taskOver", { until: task.until, today: dayOf(now) }));
  }
}

/** Return the key for which clients seal: the first one, by its last day, that has not expired; or raise TaskError. */
export function activeKey(party: Party, now: Date): SealingKey {
  const today = dayOf(now);
  let active: SealingKey | null = null;
  for (const key of party.keys) {
    if (key.until >= today && (active === null || key.until < active.until)) {
      active = key;
    }
  }
  if (active === null) {
    throw new TaskError(said("keysExpired", { today, party: party.name }));
  }
  return active;
}

/** Return the numbers of the components that a party holds, in their order in its envelopes. */
export function heldBy(task: Task, party: number): number[] {
  const parties = task.parties.length;
  if (task.copies === 1) {
    return [party];
  }
  return Array.from({ length: parties - 1 }, (_, i) => (party + i + 1) % parties);
}

function parsed(file: Uint8Array): JsonValue {
  let text: string;
  let value: JsonValue;
  try {
    text = utf8Text(file);
    value = parseJson(text);
  } catch (error) {
    throw error instanceof JsonFault ? noTaskFor(error.sentence) : error;
  }
  if (`${canonicalJson(value)}\n` !== text) {
    throw notATask("taskChanged");
  }
  return value;
}

function partyOf(value: JsonValue): Party {
  const fields = Fields.of(value, "placeParty", ["address", "keys", "name", "signing"]);
  const party = {
    name: fields.text("name"),
    address: fields.text("address"),
    keys: fields.list("keys").map(keyOf),
    signing: fields.text("signing"),
  };
  if (!PRINTABLE.test(party.name) || !ADDRESS.test(party.address)) {
    throw notATask("partyTexts");
  }
  if (party.keys.length < 1 || party.keys.length > MOST_KEYS) {
    throw notATask("partyKeys", { keys: party.keys.length, most: MOST_KEYS });
  }
  if (!isSigningKey(party.signing)) {
    throw notATask("partySigning", { party: party.name });
  }
  return party;
}

function keyOf(value: JsonValue): SealingKey {
  const fields = Fields.of(value, "placeKey", ["public", "until"]);
  const key = { public: fields.text("public"), until: fields.text("until") };
  if (!/^([0-9a-f]{2})+$/.test(key.public) || !isDate(key.until)) {
    throw notATask("keyTexts");
  }
  if (sealOverhead(key.public.length / 2) === null) {
    throw notATask("keyBytes", { bytes: key.public.length / 2 });
  }
  return key;
}

function checkKeys(parties: readonly Party[]): void {
  const keys = parties.flatMap((party) => party.keys.map((key) => key.public));
  const sizes = new Set(keys.map((key) => key.length));
  if (sizes.size > 1 || new Set(keys).size < keys.length) {
    throw notATask("keysAlike");
  }
}

async function checkSealable(parties: readonly Party[]): Promise<void> {
  for (const party of parties) {
    for (const key of party.keys) {
      if (!(await isSealable(fromHex(key.public)))) {
        throw notATask("keyUnusable", { party: party.name });
      }
    }
  }
}

function checkModel(security: string, parties: number, arithmetic: ArithmeticName, areBits: boolean): void {
  const model = modelOf(security);
  if (model === null || !takes(model, parties)) {
    throw notATask("taskModel", { parties });
  }
  if (arithmetic !== (areBits ? "xor64" : model.arithmetic)) {
    throw notATask("taskArithmetic");
  }
}

function isForm(name: string): name is FormName {
  return FORMS.includes(name);
}

function isAdmission(name: string): name is Admission {
  return ADMISSIONS.includes(name);
}

function isDate(text: string): boolean {
  if (!/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(text) || text.startsWith("0000")) {
    return false;
  }
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && dayOf(date) === text;
}
