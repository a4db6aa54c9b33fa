/**
 * A client's envelopes in files, `party-<i>/<upload>.share`, as Python's `share` has them.
 *
 * The name of a file ends in `.share` before it is sent, in `.sending` from then on, and in `.sent` once a server has
 * confirmed that it stored the envelope.
 */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import { FairSharesError, type SealedUpload, type Sentence, type SendingState, type Task } from "../src/index.js";
import { directoryFault, wayFault } from "./places.js";
import { said } from "./texts.js";

/** Envelopes cannot be written or sent. */
export class ShareError extends FairSharesError {
  override name = "ShareError";
}

const SUFFIXES = [".share", ".sending", ".sent"] as const;
type Suffix = (typeof SUFFIXES)[number];
const SUFFIX_OF: Readonly<Record<SendingState, Suffix>> = {
  "not sent": ".share",
  sending: ".sending",
  stored: ".sent",
  "not stored": ".share",
  unknown: ".sending",
};
const STATES: Readonly<Record<Suffix, SendingState>> = { ".share": "not sent", ".sending": "unknown", ".sent": "stored" };
export const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Write the envelopes of all uploads, or none, also where a signal comes. Raises ShareError, and what `uploads` raises. */
export async function writeEnvelopes(task: Task, out: string, uploads: AsyncIterable<SealedUpload>): Promise<number> {
  const folders = task.parties.map((_, party) => `party-${party}`);
  const fresh = newDirectories(out, folders);
  let partial: string | null = null;
  const arrived: string[] = [];
  const takeBack = (): void => {
    for (const place of [...arrived, ...(partial === null ? [] : [partial])]) {
      rmSync(place, { recursive: true, force: true });
    }
    for (const directory of fresh) {
      removeIfEmpty(directory);
    }
  };
  const stop = (): void => {
    takeBack();
    process.exit(130);
  };
  SIGNALS.forEach((signal) => process.on(signal, stop));
  try {
    makePlaces(out, folders);
    partial = mkdtempSync(join(out, ".partial-"));
    const moves: { readonly from: string; readonly to: string }[] = [];
    let number = 0;
    for await (const { identity, envelopes } of uploads) {
      envelopes.forEach((envelope, party) => {
        const file = `${identity}.share`;
        const from = join(partial ?? "", `${party}-${file}`);
        writeFileSync(from, envelope, { flag: "wx", mode: 0o600 });
        moves.push({ from, to: join(out, `party-${party}`, file) });
      });
      number += 1;
    }
    for (const { from, to } of moves) { // all at once: no signal is handled before the last
      arrived.push(to);
      renameSync(from, to);
    }
    arrived.length = 0; // they stay
    return number;
  } catch (error) {
    throw isOfFiles(error) ? new ShareError(said("sharesUnwritten", { out, code: error.code })) : error;
  } finally {
    takeBack();
    SIGNALS.forEach((signal) => process.off(signal, stop));
  }
}

/** Return the identities of the uploads in a directory, sorted. Raises ShareError if others could have put one there. */
export function identitiesIn(task: Task, out: string): string[] {
  try {
    const places = task.parties.map((_, party) => join(out, `party-${party}`));
    const faults = [wayFault(out), ...places.filter((place) => existsSync(place)).map(directoryFault)];
    const fault = faults.find((reason) => reason !== null);
    if (fault !== undefined) {
      throw new ShareError(said("sharesReplaced", { fault }));
    }
    const names = readdirSync(join(out, "party-0")).filter((name) => SUFFIXES.some((suffix) => name.endsWith(suffix)));
    if (names.length === 0) {
      throw new ShareError(said("sharesNone", { out }));
    }
    return [...new Set(names.map((name) => name.slice(0, name.lastIndexOf("."))))].sort();
  } catch (error) {
    throw isOfFiles(error) ? new ShareError(said("sharesUnread", { out, code: error.code })) : error;
  }
}

/** Return what is known of an upload's envelope at each party, or raise ShareError. */
export function statesOf(task: Task, out: string, identity: string): SendingState[] {
  return task.parties.map((_, party) => STATES[suffixOf(out, party, identity)]);
}

/** Return an upload with its envelopes, or raise ShareError. */
export function readUpload(task: Task, out: string, identity: string): SealedUpload {
  const envelopes = task.parties.map((_, party) => {
    const suffix = suffixOf(out, party, identity);
    return Uint8Array.from(readFileSync(fileOf(out, party, identity, suffix)));
  });
  return { identity, envelopes };
}

/** Keep what is known of one party's envelope, by its file's name. */
export function keepState(out: string, party: number, identity: string, state: SendingState): void {
  const wanted = fileOf(out, party, identity, SUFFIX_OF[state]);
  const there = SUFFIXES.map((suffix) => fileOf(out, party, identity, suffix)).find((file) => existsSync(file));
  if (there !== undefined && there !== wanted) {
    renameSync(there, wanted);
  }
}

/** Return whether an error is of a file, with its code. */
export function isOfFiles(error: unknown): error is Error & { readonly code: string; readonly path?: string } {
  return error instanceof Error && "syscall" in error && "code" in error && typeof error.code === "string";
}

function fileOf(out: string, party: number, identity: string, suffix: Suffix): string {
  return join(out, `party-${party}`, `${identity}${suffix}`);
}

function suffixOf(out: string, party: number, identity: string): Suffix {
  const suffix = SUFFIXES.find((end) => existsSync(fileOf(out, party, identity, end)));
  if (suffix === undefined) {
    throw new ShareError(said("sharesMissing", { out, upload: identity, party }));
  }
  return suffix;
}

/** Return which directories are still to be made, the deepest first. */
function newDirectories(out: string, folders: readonly string[]): string[] {
  const places = folders.map((folder) => join(out, folder));
  for (let place = resolve(out); ; place = dirname(place)) {
    places.push(place);
    if (dirname(place) === place) {
      return places.filter((one) => !existsSync(one));
    }
  }
}

function makePlaces(out: string, folders: readonly string[]): void {
  mkdirSync(out, { recursive: true, mode: 0o700 });
  checkPlace(wayFault(out));
  for (const folder of folders) {
    mkdirSync(join(out, folder), { recursive: true, mode: 0o700 });
    checkPlace(directoryFault(join(out, folder)));
  }
}

function checkPlace(fault: Sentence | null): void {
  if (fault !== null) {
    throw new ShareError(said("sharesReplaceable", { fault }));
  }
}

function removeIfEmpty(directory: string): void {
  try {
    rmdirSync(directory);
  } catch (error) {
    if (!isOfFiles(error)) {
      throw error; // else it holds other uploads, or was never made
    }
  }
}
