/** Splits a client's row into components, and seals an envelope for each party. */

import { ascii, concatenated, fromHex, randomBytes, sha256, toHex, wipe, type Bytes } from "./bytes.js";
import { ARITHMETICS, encoded, SEED_BYTES, takeAway } from "./elements.js";
import { RecordsError } from "./errors.js";
import { KEY_ID_BYTES, SALT_BYTES } from "./layout.js";
import { boundsOf, type Policy } from "./policy.js";
import { sealed } from "./sealing.js";
import { activeKey, checkOpen, heldBy, type Task } from "./task.js";
import { said } from "./texts.js";

export const VERSION = fromHex("46534503");
const LABEL = "fairshares:share:3:";

/** An upload: its identity, which is the client's receipt, and an envelope per party, party 0 first. */
export interface SealedUpload {
  readonly identity: string; // 64 hexadecimal digits
  readonly envelopes: readonly Bytes[];
}

export interface SealOptions {
  /** The client's own policy, which holds beside the task's. */
  readonly bounds?: Policy;
  /** The time by which keys expire; now, if left out. */
  readonly now?: Date;
}

/**
 * Split and seal one client's row, which is overwritten with zeros, as are seeds, salts and components.
 *
 * All parties' envelopes but one, even opened, are independent of the row. Records that are sealed anew are another
 * upload and count twice: keep the envelopes until all parties have them, and send these again.
 *
 * Raises TaskError if the task is over or a party's keys have expired, and RecordsError for a row that is not the task's.
 */
export async function seal(task: Task, row: Float64Array, options: SealOptions = {}): Promise<SealedUpload> {
  const now = options.now ?? new Date();
  const secrets: (Uint8Array | Float64Array)[] = [row];
  try {
    checkOpen(task, now);
    const keys = task.parties.map((party) => fromHex(activeKey(party, now).public));
    checkRow(task, row);
    const pieces = await piecesOf(task, row, secrets);
    const bounds = boundsOf(options.bounds ?? null, task.policy);
    const bound = concatenated(bounds, ...(await Promise.all(pieces.map(commitmentOf))));
    const digest = fromHex(task.fingerprint);
    const identity = await identityOf(digest, bound);
    const envelopes: Bytes[] = [];
    for (const [party, key] of keys.entries()) {
      const head = concatenated(VERSION, digest, identity, await keyIdOf(key));
      const plain = concatenated(bound, ...held(task, party, pieces));
      secrets.push(plain);
      envelopes.push(concatenated(head, await sealed(key, plain, await infoOf(head, party))));
    }
    return { identity: toHex(identity), envelopes };
  } finally {
    wipe(...secrets);
  }
}

export function keyIdOf(publicKey: Bytes): Promise<Bytes> {
  return sha256(publicKey).then((digest) => digest.slice(0, KEY_ID_BYTES));
}

/** Return the commitment to a component's salt and payload, which stand one after the other. */
export function commitmentOf(piece: Uint8Array): Promise<Bytes> {
  return sha256(ascii(`${LABEL}commitment\n`), piece);
}

/** Return the identity, which binds a task's digest, and the bounds and commitments of an upload. */
export function identityOf(taskDigest: Uint8Array, bound: Uint8Array): Promise<Bytes> {
  return sha256(ascii(`${LABEL}identity\n`), taskDigest, bound);
}

/** Return the seal's `info`, by which an envelope opens with its own head at its own party alone. */
export function infoOf(head: Uint8Array, party: number): Promise<Bytes> {
  return sha256(ascii(`${LABEL}info\n`), head, Uint8Array.of(party));
}

/** Return each component's salt and payload: seeds, and last the row less all that they stand for. */
async function piecesOf(task: Task, row: Float64Array, secrets: (Uint8Array | Float64Array)[]): Promise<Bytes[]> {
  const arithmetic = ARITHMETICS[task.arithmetic];
  const rest = encoded(row, arithmetic);
  secrets.push(rest);
  const pieces: Bytes[] = [];
  for (let component = 0; component < task.parties.length - 1; component += 1) {
    const seed = randomBytes(SEED_BYTES);
    secrets.push(seed);
    await takeAway(rest, seed, arithmetic);
    pieces.push(salted(seed, secrets));
  }
  pieces.push(salted(rest, secrets));
  return pieces;
}

/** Return the pieces that a party holds, in their order in its envelopes. */
function held(task: Task, party: number, pieces: readonly Bytes[]): Bytes[] {
  return heldBy(task, party).flatMap((number) => pieces.slice(number, number + 1));
}

function salted(payload: Bytes, secrets: (Uint8Array | Float64Array)[]): Bytes {
  const salt = randomBytes(SALT_BYTES);
  const piece = concatenated(salt, payload);
  secrets.push(salt, piece);
  return piece;
}

function checkRow(task: Task, row: Float64Array): void {
  if (row.length !== task.columns) {
    throw new RecordsError(said("rowLength", { columns: task.columns, given: row.length }));
  }
  if (!row.every((value) => Number.isSafeInteger(value) && value >= 0)) {
    throw new RecordsError(said("rowNumbers"));
  }
}
