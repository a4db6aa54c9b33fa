#!/usr/bin/env node
/** `fairshares-share`: an organization splits and seals its table for a task's parties, and sends it, without Python. */

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { addressesOf, linkOf } from "../page/invitation.js";
import { reasonOf } from "../page/reasons.js";
import { textsIn } from "../page/texts.js";
import { scoresOf } from "../src/domain.js";
import {
  countRecords,
  explain,
  FairSharesError,
  OptionError,
  readTable,
  readTask,
  RecordsError,
  recordsOf,
  recordsOfClients,
  seal,
  upload,
  type ClientRecord,
  type ClientsRecords,
  type Columns,
  type Outcome,
  type SealedUpload,
  type Task,
} from "../src/index.js";
import { checkOpen } from "../src/task.js";
import { identitiesIn, isOfFiles, keepState, readUpload, ShareError, statesOf, writeEnvelopes } from "./envelopes.js";

const HELP = `Usage: fairshares-share [options]

Split and seal a table's records for a task's parties, and send them: a client's step, without Python.

For example: fairshares-share --task task.json --records my.csv --out results --to task

Options:
  --task=…     the file that \`task\` made
  --records=…  CSV file with group, label, and what else the task asks for; each client_id
               is a client, and without that column all rows are of one
  --columns=…  columns of other names, as group=sex,label=hired
  --out=…      directory for one file per party and client
  --to=…       where uploads are sent: task (the addresses in it), an invitation's link, or
               a URL of https per party, separated by spaces; sends what is in --out and was
               not stored yet
  --check      say what the task means and which records would be left out, and share
               nothing
  --help       print this
`;
const OPTIONS = {
  task: { type: "string" },
  records: { type: "string" },
  columns: { type: "string" },
  out: { type: "string" },
  to: { type: "string" },
  check: { type: "boolean" },
  help: { type: "boolean" },
} as const;
const HOW: Readonly<Record<Outcome, string>> = {
  stored: "stored",
  unknown: "unknown until the party lists its uploads",
  "not stored": "not stored",
};
const LATE = "it did not answer in time";
const NOT_TRIED = "not tried, as the server did not answer an earlier one in time";

interface Options {
  readonly task: string;
  readonly records: string | null;
  readonly columns: string;
  readonly out: string | null;
  readonly to: string | null;
  readonly check: boolean;
}

async function share(options: Options): Promise<void> {
  const { records, out, to } = options;
  const task = await readTask(bytesOf(options.task, "Name the task's file."));
  const sending = to === null || options.check ? null : { addresses: await addressesFor(task, to) };
  const read = records === null ? null : clientsIn(task, records, options.columns);
  if (read !== null) {
    checkOpen(task, new Date());
    announce(read, task, records ?? "");
  }
  if (options.check) {
    const { sentences } = await explain(task);
    const clients = read?.read.clients ?? [];
    const number = clients.reduce((sum, one) => sum + one.length, 0);
    say(...sentences, `${shown(number)} records of ${counted(clients.length, "client")} would be shared; nothing was.`);
    return;
  }
  if (out === null) {
    throw new OptionError("Name a directory for the uploads, by --out results.");
  }
  if (read !== null) {
    checkOneIsMeant(read.read.clients.length, sending?.addresses ?? []);
    const number = await writeEnvelopes(task, out, sealedOf(task, read.read.clients));
    say(
      `Sealed ${counted(number, "client")} for task ${task.fingerprint.slice(0, 16)}: ${out}/party-<i>/<upload>.share. ` +
        "Share once: a second upload counts as another client's.",
    );
    const earlier = identitiesIn(task, out).length - number;
    if (earlier > 0) {
      complain(
        `${out} holds ${counted(earlier, "earlier upload")}, too; if the same records are in both, remove one of them.`,
      );
    }
  }
  if (sending !== null) {
    await send(task, out, sending.addresses);
  }
}

/** Return where each party's uploads go, party 0 first, or raise OptionError. */
async function addressesFor(task: Task, to: string): Promise<readonly string[]> {
  const fragment = /#(task=.*)$/.exec(to)?.[1];
  const addresses = to === "task" ? task.parties.map(({ address }) => address) : to.split(/\s+/).filter((url) => url !== "");
  if (fragment !== undefined) {
    const found = linkOf(fragment, task);
    if (found.kind === "other task") {
      throw new OptionError(`The link is for another task than ${task.fingerprint.slice(0, 16)}; take the file of its task.`);
    }
    if (found.kind !== "invitation") {
      throw new OptionError("--to is no whole link; give it as you got it, in quotation marks.");
    }
    return checkedAddresses(await addressesOf(task, found.secret));
  }
  if (addresses.length !== task.parties.length) {
    throw new OptionError(`The task has ${task.parties.length} parties; --to names ${addresses.length}.`);
  }
  if (task.admission === "certificate") {
    throw new OptionError(
      "The task's servers want a certificate of each client, which this command cannot show; send by the command of Python.",
    );
  }
  if (task.admission === "urls" && addresses.some((address) => address.endsWith("/"))) {
    throw new OptionError("The task has a URL of its own for each upload; name those of yours by --to.");
  }
  return checkedAddresses(addresses);
}

function checkedAddresses(addresses: readonly string[]): readonly string[] {
  const wrong = addresses.find((address) => !/^https:\/\/[!-~]+$/.test(address));
  if (wrong !== undefined) {
    throw new OptionError(`${wrong || "A party without an address"} is no URL of https to send to; send by the command of Python.`);
  }
  return addresses;
}

/** Raise OptionError where several uploads would go to an address for one. */
function checkOneIsMeant(uploads: number, addresses: readonly string[]): void {
  if (uploads > 1 && addresses.some((address) => !address.endsWith("/"))) {
    throw new OptionError(`--to is for one upload, and there are ${uploads}.`);
  }
}

/** Return the records of each client in a file, and how many columns it has. */
function clientsIn(task: Task, file: string, named: string): { readonly read: ClientsRecords; readonly cells: number } {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytesOf(file, "Name a CSV file."));
  } catch (error) {
    throw error instanceof TypeError ? new RecordsError(textsIn("en").unreadableFile) : error;
  }
  const table = readTable(text);
  const { columns, client } = columnsOf(task, named);
  if (!table.header.includes(client) && client === "client_id") {
    const { records, leftOut } = recordsOf(task, table, columns);
    return { read: { clients: [records], leftOut }, cells: table.header.length };
  }
  return { read: recordsOfClients(task, table, columns, client), cells: table.header.length };
}

/** Return which columns hold a record and its client, by what --columns says of their usual names. */
function columnsOf(task: Task, named: string): { readonly columns: Columns; readonly client: string } {
  const { detail, labels } = task.domain;
  const of = scoresOf(task.domain) > 1 ? labels.map((label) => `score_${label}`) : ["score"];
  const scores = detail.kind === "score" ? of : [];
  const details = detail.kind === "value" || detail.kind === "prediction" ? [detail.kind] : [];
  const usual = ["client_id", "group", ...(detail.kind === "value" ? [] : ["label"]), ...details, ...scores];
  const names = new Map(usual.map((name) => [name, name]));
  for (const part of named === "" ? [] : named.split(",")) {
    const at = part.indexOf("=");
    const meaning = part.slice(0, Math.max(at, 0)).trim();
    if (!names.has(meaning)) {
      throw new OptionError(`--columns does not say '${part}' of this task's columns: ${usual.join(", ")}; as group=sex.`);
    }
    names.set(meaning, part.slice(at + 1));
  }
  const nameOf = (meaning: string): string => names.get(meaning) ?? meaning;
  const columns = {
    group: nameOf("group"),
    ...(detail.kind !== "value" && { label: nameOf("label") }),
    ...(detail.kind === "prediction" && { prediction: nameOf("prediction") }),
    ...(detail.kind === "value" && { value: nameOf("value") }),
    ...(scores.length > 0 && { scores: scores.map(nameOf) }),
  };
  return { columns, client: nameOf("client_id") };
}

/** Say on standard error which rows are left out, and why. */
function announce({ read, cells }: ReturnType<typeof clientsIn>, task: Task, file: string): void {
  for (const left of read.leftOut) {
    const reason = reasonOf(left, task, cells, textsIn("en"));
    const isDrawn = left.row === 0;
    const others = left.rows > 1 ? `, with ${shown(left.rows - 1)} more` : "";
    complain(
      isDrawn ? `${file}: ${reason} ${shown(left.rows)} left out.` : `${file} row ${shown(left.row)}: ${reason} Left out${others}.`,
    );
  }
}

async function* sealedOf(task: Task, clients: readonly (readonly ClientRecord[])[]): AsyncGenerator<SealedUpload> {
  for (const records of clients) {
    yield await seal(task, countRecords(task, records));
  }
}

/** Send what is not yet known to be stored, and say how it ended. Raises ShareError unless all is stored. */
async function send(task: Task, out: string, addresses: readonly string[]): Promise<void> {
  const ends = task.parties.map(() => new Map<string, number>());
  const late = new Set<number>();
  const identities = identitiesIn(task, out);
  const waiting = identities.filter((identity) => statesOf(task, out, identity).some((state) => state !== "stored"));
  checkOneIsMeant(waiting.length, addresses);
  let isStored = true;
  for (const identity of waiting) {
    const sealed = readUpload(task, out, identity);
    const states = statesOf(task, out, identity);
    const tried = states.map((state, party) => (late.has(party) ? "stored" : state)); // or it would keep its client for days
    const keep = (party: number, state: Parameters<typeof keepState>[3]): void => keepState(out, party, identity, state);
    const results = await upload(task, sealed, { addresses, earlier: tried, keep });
    for (const { party, outcome, answer } of results) {
      if (states[party] === "stored") {
        continue;
      }
      const known = states[party] === "unknown" ? "unknown" : "not stored";
      const end = late.has(party) ? `${HOW[known]} (${NOT_TRIED})` : `${HOW[outcome]} (${answer})`;
      ends[party]?.set(end, (ends[party]?.get(end) ?? 0) + 1);
      isStored &&= !late.has(party) && outcome === "stored";
      if (answer === LATE) {
        late.add(party);
      }
    }
  }
  for (const [party, { name }] of task.parties.entries()) {
    const parts = [...(ends[party] ?? [])].map(([end, number]) => `${shown(number)} ${end}`);
    say(`${name}: ${parts.join(", ") || "nothing to send"}.`);
  }
  if (!isStored) {
    throw new ShareError(
      `Not every upload is known to be stored; ${out} keeps them. Send the rest by this command without --records; sharing ` +
        "again would count the records twice.",
    );
  }
}

/** Return a file's bytes, or raise OptionError with the way out. */
function bytesOf(file: string, wayOut: string): Uint8Array {
  try {
    return Uint8Array.from(readFileSync(file));
  } catch (error) {
    throw isOfFiles(error) ? new OptionError(`Cannot read ${file}: ${error.code}. ${wayOut}`) : error;
  }
}

/** Return the options, or raise OptionError; null asks for help. */
function optionsIn(words: readonly string[]): Options | null {
  let values: ReturnType<typeof parsed>;
  try {
    values = parsed(words);
  } catch (error) {
    if (error instanceof TypeError) {
      throw new OptionError(`${(error.message.split(/\.\s|\n/)[0] ?? "").replace(/\.$/, "")}; see --help.`);
    }
    throw error;
  }
  const { task, records = null, columns = "", out = null, to = null, check = false, help = false } = values;
  if (help) {
    return null;
  }
  if (task === undefined) {
    throw new OptionError("Name the task, by --task task.json.");
  }
  if (records === null && (to === null || check)) {
    throw new OptionError("Name the records, by --records my.csv.");
  }
  if (out === null && !check) {
    throw new OptionError("Name a directory for the uploads, by --out results.");
  }
  return { task, records, columns, out, to, check };
}

function parsed(words: readonly string[]): Partial<Record<"task" | "records" | "columns" | "out" | "to", string>> & {
  check?: boolean;
  help?: boolean;
} {
  return parseArgs({ args: [...words], options: OPTIONS, allowPositionals: false }).values;
}

function counted(number: number, what: string): string {
  return `${shown(number)} ${what}${number === 1 ? "" : "s"}`;
}

function shown(number: number): string {
  return number.toLocaleString("en-US");
}

/** Print lines, without what a terminal would take for commands. */
function say(...lines: readonly string[]): void {
  process.stdout.write(lines.map((line) => `${plain(line)}\n`).join(""));
}

function complain(line: string): void {
  process.stderr.write(`${plain(line)}\n`);
}

function plain(line: string): string {
  return line.replace(/\p{C}/gu, "\ufffd");
}

try {
  const options = optionsIn(process.argv.slice(2));
  if (options === null) {
    process.stdout.write(HELP);
  } else {
    await share(options);
  }
} catch (error) {
  if (error instanceof FairSharesError) {
    complain(error.message);
  } else if (isOfFiles(error)) {
    complain(`Cannot use ${error.path ?? "a file"}: ${error.code}.`);
  } else {
    throw error;
  }
  process.exitCode = 1;
}
