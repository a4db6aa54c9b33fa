/** What became of each party's package, and other ways for it. */

import { inWords, type Language, type PartyResult, type SendingState, type Task } from "../src/index.js";
import { fill } from "../src/sentences.js";
import { button, element, paragraph, save, table, type Child } from "./dom.js";
import { archive } from "./tar.js";
import { textsIn, type Texts } from "./texts.js";

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
  language: Language,
): HTMLElement {
  const texts = textsIn(language);
  const rows = task.parties.map((party, i) => {
    const state = states[i] ?? "not sent";
    const shown = element("span", { class: `state ${state.replace(" ", "-")}` }, texts[STATES[state]]);
    return [party.name, shown, state === "sending" ? "" : why(results[i], language)];
  });
  return table(texts.sendingHeading, [texts.sendingParty, texts.sendingState, texts.sendingWhy], rows);
}

/** Return whether a server has said that something is stored under this link. */
export function isTaken(results: readonly PartyResult[]): boolean {
  return results.some((result) => [409, 412].includes(statusOf(result)));
}

function why(result: PartyResult | undefined, language: Language): string {
  const texts = textsIn(language);
  if (result === undefined) {
    return "";
  }
  const { sentence, outcome } = result;
  const status = statusOf(result);
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
    answerBroken: texts.whyBroke,
    answerLate: texts.whyLate,
    answerOffline: texts.whyOffline,
  };
  return known[sentence.key] ?? fill(texts.whyOther, { answer: inWords(sentence, language) });
}

/** Return the status of HTTP that a server answered last, or 0. */
function statusOf({ sentence }: PartyResult): number {
  return Number(sentence.values["status"] ?? 0);
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
