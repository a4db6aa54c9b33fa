/**
 * What this browser keeps of submissions: sealed packages until all parties have them, then the receipt alone. No answer
 * and no time is kept.
 */

import type { SendingState, Task } from "../src/index.js";

export interface Kept {
  readonly identity: string; // the receipt
  readonly task: string; // the task's fingerprint
  readonly addresses: readonly string[]; // where each party's package goes, which for an invitation is its own
  readonly states: readonly SendingState[];
  readonly envelopes: readonly Uint8Array<ArrayBuffer>[]; // none once all are stored
}

const DATABASE = "fairshares";
const PLACE = "submissions";

/** The browser does not let this page keep anything. */
export class StoreError extends Error {
  override name = "StoreError";
}

/** Return what is kept of submissions for a task. Raises StoreError. */
export async function keptFor(task: Task): Promise<Kept[]> {
  const all: readonly Kept[] = await inPlace("readonly", (place) => place.getAll());
  return all.filter((kept) => kept.task === task.fingerprint);
}

/** Keep a submission, in the place of what was kept of it. It is on the disk when this returns. Raises StoreError. */
export async function keep(submission: Kept): Promise<void> {
  await inPlace("readwrite", (place) => place.put(submission));
}

export async function forget(identity: string): Promise<void> {
  await inPlace("readwrite", (place) => place.delete(identity));
}

/** Return the submission with another state of one party; when all are stored, without its packages. */
export function withState(submission: Kept, party: number, state: SendingState): Kept {
  const states = submission.states.map((earlier, i) => (i === party ? state : earlier));
  return { ...submission, states, envelopes: areAllStored(states) ? [] : submission.envelopes };
}

export function areAllStored(states: readonly SendingState[]): boolean {
  return states.every((state) => state === "stored");
}

function inPlace<T>(mode: IDBTransactionMode, ask: (place: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const failed = (): void => reject(new StoreError("nothing can be kept"));
    let opening: IDBOpenDBRequest;
    try {
      opening = indexedDB.open(DATABASE, 1);
    } catch {
      failed();
      return;
    }
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore(PLACE, { keyPath: "identity" });
    };
    opening.onerror = failed;
    opening.onsuccess = () => {
      const database = opening.result;
      const transaction = database.transaction(PLACE, mode, { durability: "strict" });
      const request = ask(transaction.objectStore(PLACE));
      transaction.oncomplete = () => {
        database.close();
        resolve(request.result);
      };
      transaction.onabort = () => {
        database.close();
        failed();
      };
    };
  });
}
