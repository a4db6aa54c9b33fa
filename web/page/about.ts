/** What a task means, in the reader's language, and what this page cannot promise. */

import type { Explanation, ReleaseName, Task } from "../src/index.js";
import { fill } from "../src/sentences.js";
import { element, opening, paragraph, table, type Child } from "./dom.js";
import type { Texts } from "./texts.js";

const RELEASE_TEXTS = {
  weights: "weights",
  confusion: "confusion",
  thresholds: "thresholds",
  gap: "gap",
  count: "count",
  cap: "cap",
} as const satisfies Readonly<Record<ReleaseName, keyof Texts>>;

/** Return what happens with an answer, who takes part, and what is not promised. */
export function about(task: Task, facts: Explanation, texts: Texts, language: string): readonly Child[] {
  return [
    element("section", {}, element("h2", {}, texts.aboutHeading), ...meaning(task, facts, texts, language)),
    opening(texts.partiesHeading, ...parties(facts, texts, language)),
    opening(texts.promiseHeading, promises(task, texts)),
  ];
}

function meaning(task: Task, facts: Explanation, texts: Texts, language: string): readonly Child[] {
  const unit = unitOf(task, texts);
  const noise = { unit, factor: factorOf(facts, language), epsilon: facts.policy.epsilon, delta: facts.policy.delta };
  const results = facts.readersOfResults;
  const readers = task.form === "split" ? facts.readersOfUploads : results; // other forms compute on single answers
  const collude = task.form === "split" && results < readers ? texts.aboutColludeSums : texts.aboutCollude;
  return [
    paragraph(fill(texts.aboutSplit, { parties: facts.parties.length })),
    paragraph(texts.aboutCompute),
    element("ul", {}, ...facts.reveals.map(({ release }) => element("li", {}, texts[RELEASE_TEXTS[release]]))),
    paragraph(fill(texts.aboutNoise, noise)),
    paragraph(`${fill(collude, { readers, results })} ${facts.isActive ? fill(texts.aboutActive, { results }) : texts.aboutHonest}`),
    paragraph(
      [
        ...(facts.leastUploads > 1 ? [fill(texts.aboutLeast, { least: facts.leastUploads })] : []),
        fill(texts.aboutUntil, { until: facts.until }),
        texts.aboutRetract,
      ].join(" "),
    ),
  ];
}

function unitOf(task: Task, texts: Texts): string {
  if (task.domain.maxCount === 1n) {
    return texts.unitAnswer;
  }
  return task.policy.unit === "client" ? texts.unitClient : texts.unitRecord;
}

/**
 * Return by how much results change the odds of a guess: e^(2ε), rounded up to two digits.
 *
 * A run may protect whether a record is there, which is e^ε; what it says is then two such steps.
 */
function factorOf(facts: Explanation, language: string): string {
  const [top = "", bottom = "1"] = facts.policy.epsilon.split("/");
  const factor = Math.exp((2 * Number(top)) / Number(bottom));
  const step = 10 ** Math.max(Math.floor(Math.log10(factor)) - 1, -1);
  const rounded = Math.ceil(factor / step) * step;
  return rounded.toLocaleString(language, { maximumSignificantDigits: 2 });
}

function parties(facts: Explanation, texts: Texts, language: string): readonly Child[] {
  const each = facts.parties.map((party, number) =>
    element(
      "li",
      {},
      element("h3", {}, fill(texts.party, { number: number + 1 })),
      terms([
        [texts.partyName, party.name],
        [texts.partyAddress, element("code", {}, party.address || texts.noAddress)],
        [texts.partyBytes, fill(texts.bytes, { bytes: party.envelopeBytes.toLocaleString(language) })],
        [fill(texts.partyKey, { until: party.keyUntil }), element("code", {}, party.keyId)],
      ]),
    ),
  );
  const seals = facts.isHybrid ? texts.sealsHybrid : texts.sealsCurve;
  return [
    paragraph(texts.partiesAsk),
    terms([[texts.fingerprint, element("code", {}, facts.fingerprint)]]),
    element("ol", { class: "parties" }, ...each),
    paragraph(fill(texts.model, { model: facts.security, seals })),
  ];
}

function promises(task: Task, texts: Texts): HTMLElement {
  const admitted = {
    anyone: [texts.promiseOpen],
    urls: [texts.promiseInvited, texts.promiseLink],
    certificate: [texts.promiseCertificate],
  };
  const said = [
    texts.promiseServed,
    texts.promiseLower,
    texts.promiseCommand,
    texts.promiseAddress,
    ...admitted[task.admission],
    texts.promiseDevice,
  ];
  return element("ul", {}, ...said.map((text) => element("li", {}, text)));
}

function terms(pairs: readonly (readonly [string, Child])[]): HTMLElement {
  return element(
    "dl",
    {},
    ...pairs.flatMap(([term, what]) => [element("dt", {}, term), element("dd", {}, what)]),
  );
}

/** Return the counts of records by group and label as a table with totals, or by group where there are no labels. */
export function countsTable(
  counts: (group: string, label: string) => number,
  names: { readonly groups: readonly string[]; readonly labels: readonly string[] },
  shown: { readonly caption: string; readonly group: (name: string) => string; readonly label: (name: string) => string },
  texts: Texts,
): HTMLElement {
  const labels = names.labels.length > 0 ? names.labels : [""];
  const rows = names.groups.map((group) => labels.map((label) => counts(group, label)));
  const totals = labels.map((_, j) => sum(rows.map((row) => row[j] ?? 0)));
  const hasLabels = names.labels.length > 0;
  const cells = (row: readonly number[]): string[] =>
    hasLabels ? [...row.map(String), String(sum(row))] : row.map(String);
  const header = hasLabels ? [texts.groups, ...labels.map(shown.label), texts.total] : [texts.groups, texts.total];
  return table(shown.caption, header, [
    ...names.groups.map((group, i) => [shown.group(group), ...cells(rows[i] ?? [])]),
    [texts.total, ...cells(totals)],
  ]);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}
