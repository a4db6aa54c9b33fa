/** What became of each party's package, and other ways for it. */

import type { PartyResult, SendingState, Task } from "../src/index.js";
import { button, element, paragraph, save, table, type Child } from "./dom.js";
import { archive } from "./tar.js";
import { fill, type Texts } from "./texts.js";

const STATES = {
  "not sent": "notSent",
  sending: "sending",
  stored: "stored",
  "not stored": "notStored",
  unknown: "unknown",
} as const satisfies Readonly<Record<SendingState, keyof Texts>>;

/** Return the state and the last answer of each party. */
export function stateTable(
  task: Task,
  states: readonly SendingState[],
  results: readonly PartyResult[],
  texts: Texts,
): HTMLElement {
  const rows = task.parties.map((party, i) => {
    const state = states[i] ?? "not sent";
    const shown = element("span", { class: `state ${state.replace(" ", "-")}` }, texts[STATES[state]]);
    return [party.name, shown, state === "sending" ? "" : why(results[i], texts)];
  });
  return table(texts.sendingHeading, [texts.sendingParty, texts.sendingState, texts.sendingWhy], rows);
}

/** Return whether a server has said that something is stored under this link. */
export function isTaken(results: readonly PartyResult[]): boolean {
  return results.some(({ answer }) => /^HTTP (409|412)$/.test(answer));
}

function why(result: PartyResult | undefined, texts: Texts): string {
  if (result === undefined) {
    return "";
  }
  const { answer, outcome } = result;
  const status = Number(/^HTTP (\d+)$/.exec(answer)?.[1] ?? 0);
  if (outcome === "stored") {
    return texts.whyStored;
  }
  if (status === 409 || status === 412) {
    return texts.whyTaken;
  }
  if (status === 403) {
    return texts.whyRevoked;
  }
  if (status === 429 || status >= 500) {
    return texts.whyBusy;
  }
  const known: Readonly<Record<string, string>> = {
    "the connection broke": texts.whyBroke,
    "it did not answer in time": texts.whyLate,
    "this machine is offline": texts.whyOffline,
  };
  return known[answer] ?? fill(texts.whyOther, { answer });
}

/**
 * Return the button that saves all packages as one file, with the folders that `share --out` has, and what it is for.
 *
 * @param to what `share --to` is to be given: `task`, or a link of one's own
 */
export function packages(
  task: Task,
  sealed: { readonly identity: string; readonly envelopes: readonly Uint8Array[] },
  to: string,
  texts: Texts,
): readonly Child[] {
  const files = sealed.envelopes.map((content, party) => ({ name: `party-${party}/${sealed.identity}.share`, content }));
  const name = `packages-${sealed.identity.slice(0, 16)}.tar`;
  const made = button(texts.savePackages, "other", () => save(name, archive(files), "application/x-tar"));
  made.id = "save";
  const folders = task.parties.map((party, number) => element("li", {}, `party-${number}: ${party.name}`));
  return [
    paragraph(fill(texts.saveMeans, { name, to })),
    element("ul", {}, ...folders),
    element("div", { class: "buttons" }, made),
  ];
}

/** Return the receipt of a submission, and what it is good for. */
export function receipt(task: Task, identity: string, texts: Texts): readonly Child[] {
  const text = fill(texts.receiptFile, { task: task.fingerprint, identity });
  return [
    element("h3", {}, texts.receipt),
    element("p", {}, element("code", { id: "receipt" }, identity)),
    paragraph(texts.receiptMeans),
    button(texts.saveReceipt, "other", () => {
      save(`receipt-${identity.slice(0, 16)}.txt`, new TextEncoder().encode(`${text}\n`), "text/plain");
    }),
  ];
}
