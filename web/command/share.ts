#!/usr/bin/env node
/** `fairshares-share`: an organization splits and seals its table for a task's parties, and sends it, without Python. */

import { readFileSync } from "node:fs";

import { addressesOf, linkOf } from "../page/invitation.js";
import { scoresOf } from "../src/domain.js";
import {
  countRecords,
  explain,
  FairSharesError,
  inWords,
  OptionError,
  readTable,
  readTask,
  reasonOf,
  recordsOf,
  recordsOfClients,
  seal,
  upload,
  type ClientRecord,
  type ClientsRecords,
  type Columns,
  type Outcome,
  type Policy,
  type SealedUpload,
  type Sentence,
  type Task,
} from "../src/index.js";
import { checkOpen } from "../src/task.js";
import { boundsOf } from "./bounds.js";
import { fetchShowing } from "./certificate.js";
import { checkCapIsNumber, recordsLeft } from "./counted.js";
import { identitiesIn, isOfFiles, keepState, readUpload, ShareError, statesOf, writeEnvelopes } from "./envelopes.js";
import { help, optionsIn, type Options } from "./options.js";
import { LANGUAGE, said, words, type TextKey } from "./texts.js";
import { inTurn } from "./turns.js";

const HOW: Readonly<Record<Outcome, TextKey>> = { stored: "stored", unknown: "unknown", "not stored": "notStored" };

/** Where uploads go, and by what. */
interface Sending {
  readonly addresses: readonly string[];
  readonly fetch: typeof fetch;
}

/** A file of records, and the clients in it. */
interface ReadTable {
  readonly read: ClientsRecords;
  readonly cells: number; // of its header
  readonly bytes: Uint8Array;
}

async function share(options: Options): Promise<void> {
  const { records, out } = options;
  const task = await readTask(bytesOf(options.task, said("nameTask")));
  const sending = options.check ? null : await sendingFor(task, options);
  const bounds = boundsOf(options.runs, task);
  if (options.counted !== null) {
    checkCapIsNumber(task);
  }
  const table = records === null ? null : clientsIn(task, records, options.columns);
  if (table !== null) {
    checkOpen(task, new Date());
    announce(table, task, records ?? "");
  }
  if (options.check) {
    const { sentences } = await explain(task, new Date(), LANGUAGE);
    const clients = table?.read.clients ?? [];
    const number = clients.reduce((sum, one) => sum + one.length, 0);
    say(...sentences, words("wouldShare", { records: shown(number), clients: counted(clients.length, "clients") }));
    return;
  }
  if (out === null) {
    throw new OptionError(said("needsOut"));
  }
  if (table !== null && records !== null) {
    checkOneIsMeant(table.read.clients.length, sending?.addresses ?? []);
    const source = { name: records, bytes: table.bytes };
    const file = options.counted;
    const clients = file === null ? table.read.clients : await recordsLeft(task, table.read, source, file, complain);
    const number = await writeEnvelopes(task, out, sealedOf(task, clients, bounds));
    say(words("sealed", { clients: counted(number, "clients"), task: task.fingerprint.slice(0, 16), out }));
    const earlier = identitiesIn(task, out).length - number;
    if (earlier > 0) {
      complain(words("earlier", { out, uploads: counted(earlier, "uploads") }));
    }
  }
  if (sending !== null) {
    identitiesIn(task, out); // or there is no place to be in turn at
    await inTurn(out, () => send(task, out, sending), complain);
  }
}

/** Return how uploads are sent, or null if they are not; raise OptionError or ShareError. */
async function sendingFor(task: Task, { to, certificate }: Options): Promise<Sending | null> {
  if (to === null) {
    return null;
  }
  const addresses = await addressesFor(task, to, certificate);
  return { addresses, fetch: certificate === null ? fetch : fetchShowing(certificate) };
}

/** Return where each party's uploads go, party 0 first, or raise OptionError. */
async function addressesFor(task: Task, to: string, certificate: string | null): Promise<readonly string[]> {
  const fragment = /#(task=.*)$/.exec(to)?.[1];
  const addresses = to === "task" ? task.parties.map(({ address }) => address) : to.split(/\s+/).filter((url) => url !== "");
  if (fragment !== undefined) {
    const found = linkOf(fragment, task);
    if (found.kind === "other task") {
      throw new OptionError(said("linkOther", { task: task.fingerprint.slice(0, 16) }));
    }
    if (found.kind !== "invitation") {
      throw new OptionError(said("linkBroken"));
    }
    return checkedAddresses(await addressesOf(task, found.secret));
  }
  if (addresses.length !== task.parties.length) {
    throw new OptionError(said("toNumber", { parties: task.parties.length, number: addresses.length }));
  }
  if (task.admission === "certificate" && certificate === null) {
    throw new OptionError(said("needsCertificate"));
  }
  if (task.admission === "urls" && addresses.some((address) => address.endsWith("/"))) {
    throw new OptionError(said("toUrls"));
  }
  return checkedAddresses(addresses);
}

function checkedAddresses(addresses: readonly string[]): readonly string[] {
  const wrong = addresses.find((address) => !/^https:\/\/[!-~]+$/.test(address));
  if (wrong !== undefined) {
    throw new OptionError(said("toUrl", { address: wrong || said("toNoAddress") }));
  }
  return addresses;
}

/** Raise OptionError where several uploads would go to an address for one. */
function checkOneIsMeant(uploads: number, addresses: readonly string[]): void {
  if (uploads > 1 && addresses.some((address) => !address.endsWith("/"))) {
    throw new OptionError(said("toOne", { number: uploads }));
  }
}

/** Return the records of each client in a file; without a column of clients, all are of one without a name. */
function clientsIn(task: Task, file: string, named: string): ReadTable {
  const bytes = bytesOf(file, said("nameCsv"));
  const table = readTable(bytes);
  const { columns, client } = columnsOf(task, named);
  if (!table.header.includes(client) && client === "client_id") {
    const { records, leftOut } = recordsOf(task, table, columns);
    return { read: { names: [""], clients: [records], leftOut }, cells: table.header.length, bytes };
  }
  return { read: recordsOfClients(task, table, columns, client), cells: table.header.length, bytes };
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
      throw new OptionError(said("badColumns", { part, usual: usual.join(", ") }));
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
function announce({ read, cells }: ReadTable, task: Task, file: string): void {
  for (const left of read.leftOut) {
    const reason = reasonOf(left, task, cells, LANGUAGE);
    if (left.row === 0) {
      complain(words("leftDrawn", { file, reason, number: shown(left.rows) }));
      continue;
    }
    const others = left.rows > 1 ? said("leftOthers", { number: shown(left.rows - 1) }) : "";
    complain(words("leftRow", { file, row: shown(left.row), reason, others }));
  }
}

async function* sealedOf(
  task: Task,
  clients: readonly (readonly ClientRecord[])[],
  bounds: Policy | null,
): AsyncGenerator<SealedUpload> {
  for (const records of clients) {
    yield await seal(task, countRecords(task, records), bounds === null ? {} : { bounds });
  }
}

/** Send what is not yet known to be stored, and say how it ended. Raises ShareError unless all is stored. */
async function send(task: Task, out: string, { addresses, fetch: put }: Sending): Promise<void> {
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
    const results = await upload(task, sealed, { addresses, earlier: tried, keep, fetch: put });
    for (const { party, outcome, sentence } of results) {
      if (states[party] === "stored") {
        continue;
      }
      const isTried = !late.has(party);
      const known = states[party] === "unknown" ? "unknown" : "not stored";
      const how = words(HOW[isTried ? outcome : known]);
      const end = `${how} (${isTried ? inWords(sentence, LANGUAGE) : words("notTried")})`;
      ends[party]?.set(end, (ends[party]?.get(end) ?? 0) + 1);
      isStored &&= isTried && outcome === "stored";
      if (sentence.key === "answerLate") {
        late.add(party);
      }
    }
  }
  for (const [party, { name }] of task.parties.entries()) {
    const parts = [...(ends[party] ?? [])].map(([end, number]) => `${shown(number)} ${end}`);
    say(`${name}: ${parts.join(", ") || words("nothingToSend")}.`);
  }
  if (!isStored) {
    throw new ShareError(said("unfinished", { out }));
  }
}

/** Return a file's bytes, or raise OptionError with the way out. */
function bytesOf(file: string, wayOut: Sentence): Uint8Array {
  try {
    return Uint8Array.from(readFileSync(file));
  } catch (error) {
    throw isOfFiles(error) ? new OptionError(said("cannotRead", { file, code: error.code, wayOut })) : error;
  }
}

/** Return how many there are of something, in words. */
function counted(number: number, what: "clients" | "uploads"): string {
  return words(number === 1 ? `${what}One` : what, { number: shown(number) });
}

function shown(number: number): string {
  return number.toLocaleString(LANGUAGE);
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
    process.stdout.write(help());
  } else {
    await share(options);
  }
} catch (error) {
  if (error instanceof FairSharesError) {
    complain(inWords(error.sentence, LANGUAGE));
  } else if (isOfFiles(error)) {
    complain(words("cannotUse", { file: error.path ?? said("aFile"), code: error.code }));
  } else {
    throw error;
  }
  process.exitCode = 1;
}
