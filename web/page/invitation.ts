/** Links: which task and whose invitation an address names after its `#`. */

import { ascii, concatenated, fromHex, sha256, toHex } from "../src/bytes.js";
import type { Task } from "../src/index.js";

/** What a link names. */
export type Link =
  | { readonly kind: "none" } // no invitation: an open page's link
  | { readonly kind: "broken" }
  | { readonly kind: "other task" }
  | { readonly kind: "invitation"; readonly secret: Uint8Array };

const LABEL = "fairshares:invitation:1\n";
const SECRET = /^[A-Za-z0-9_-]{22}$/; // 16 bytes in base64url
const PREFIX_DIGITS = 16; // of the task's fingerprint

/** Return what the part of an address after `#` names, for a page with a task. */
export function linkOf(fragment: string, task: Task): Link {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const of = given.get("task");
  const secret = given.get("invitation");
  if (of !== null && of !== task.fingerprint.slice(0, PREFIX_DIGITS)) {
    return { kind: /^[0-9a-f]{16}$/.test(of) ? "other task" : "broken" };
  }
  if (secret === null) {
    return { kind: "none" };
  }
  if (of === null || !SECRET.test(secret)) {
    return { kind: "broken" };
  }
  const text = atob(secret.replace(/-/g, "+").replace(/_/g, "/"));
  return { kind: "invitation", secret: ascii(text) };
}

/**
 * Return the URL at which each party's server takes the upload of an invitation.
 *
 * Each party knows its own token alone, which does not tell those of the others.
 */
export async function addressesOf(task: Task, secret: Uint8Array): Promise<string[]> {
  const addresses: string[] = [];
  for (const [number, party] of task.parties.entries()) {
    const bound = concatenated(ascii(LABEL), fromHex(task.fingerprint), secret, Uint8Array.of(number));
    addresses.push(`${party.address}${toHex(await sha256(bound))}.share`);
  }
  return addresses;
}
