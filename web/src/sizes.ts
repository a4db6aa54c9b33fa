/** Lengths of envelopes, which follow from the task alone. */

import { ARITHMETICS, SEED_BYTES } from "./elements.js";
import { BOUNDS_BYTES, DIGEST_BYTES, HEAD_BYTES, SALT_BYTES } from "./layout.js";
import { sealOverhead } from "./sealing.js";
import { heldBy, type Task } from "./task.js";

/** Return the bytes of a component's salt and payload. */
export function pieceBytes(task: Task, component: number): number {
  const isLast = component === task.parties.length - 1;
  return SALT_BYTES + (isLast ? task.columns * ARITHMETICS[task.arithmetic].elementBytes : SEED_BYTES);
}

/** Return the length of a party's envelopes. */
export function envelopeBytes(task: Task, party: number): number {
  const key = task.parties[party]?.keys[0]?.public ?? "";
  const pieces = heldBy(task, party).reduce((size, component) => size + pieceBytes(task, component), 0);
  const overhead = sealOverhead(key.length / 2) ?? 0;
  return HEAD_BYTES + overhead + BOUNDS_BYTES + DIGEST_BYTES * task.parties.length + pieces;
}
