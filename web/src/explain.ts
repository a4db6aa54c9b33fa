/** What a task means to those who take part. */

import { fromHex, toHex } from "./bytes.js";
import { modelOf } from "./models.js";
import { RELEASES, type Policy, type ReleaseName } from "./policy.js";
import { keyIdOf } from "./seal.js";
import { envelopeBytes } from "./sizes.js";
import { isHybrid } from "./sealing.js";
import { inWords, type Language, type Sentence } from "./sentences.js";
import { activeKey, dayOf, type Admission, type Task } from "./task.js";
import { said, type TextKey } from "./texts.js";
import type { Cap, Detail } from "./domain.js";

/** Who receives a share, and in how many bytes. */
export interface ExplainedParty {
  readonly name: string;
  readonly address: string;
  readonly envelopeBytes: number;
  readonly keyId: string;
  readonly keyUntil: string;
}

/** What a page says before it asks for anything. */
export interface Explanation {
  readonly fingerprint: string; // as `sha256sum task.json` prints it
  readonly until: string;
  readonly isOver: boolean; // by this machine's clock
  readonly leastUploads: bigint;
  readonly groups: readonly string[];
  readonly labels: readonly string[];
  readonly asks: Detail["kind"]; // besides group and label
  readonly mostRecords: bigint;
  readonly cap: Cap | null;
  readonly reveals: readonly { readonly release: ReleaseName; readonly what: string }[];
  readonly policy: Policy;
  readonly admission: Admission;
  readonly security: string;
  readonly parties: readonly ExplainedParty[];
  readonly readersOfResults: number; // how many parties that collude can read what is computed on
  readonly readersOfUploads: number; // how many parties that collude can read single uploads
  readonly isActive: boolean; // whether parties may also deviate, by the model's design
  readonly isHybrid: boolean; // whether seals withstand quantum computers
  readonly sentences: readonly string[]; // all of this
}

const ADMITTED = {
  anyone: "admitsAnyone",
  certificate: "admitsCertificate",
  urls: "admitsUrls",
} as const satisfies Readonly<Record<Admission, TextKey>>;

/** Return what a task means, in a language's words. Raises TaskError if all keys of a party have expired. */
export async function explain(task: Task, now: Date = new Date(), language: Language = "en"): Promise<Explanation> {
  const parties: ExplainedParty[] = [];
  for (const [number, party] of task.parties.entries()) {
    const key = activeKey(party, now);
    parties.push({
      name: party.name,
      address: party.address,
      envelopeBytes: envelopeBytes(task, number),
      keyId: toHex(await keyIdOf(fromHex(key.public))),
      keyUntil: key.until,
    });
  }
  const model = modelOf(task.security);
  const readersOfResults = (model?.corruptions(parties.length) ?? 0) + 1;
  const facts = {
    fingerprint: task.fingerprint,
    until: task.until,
    isOver: dayOf(now) > task.until,
    leastUploads: task.leastUploads,
    groups: task.domain.groups,
    labels: task.domain.labels,
    asks: task.domain.detail.kind,
    mostRecords: task.domain.maxCount,
    cap: task.domain.cap,
    reveals: task.policy.tasks.map((release) => ({ release, what: inWords(said(RELEASES[release]), language) })),
    policy: task.policy,
    admission: task.admission,
    security: task.security,
    parties,
    readersOfResults,
    readersOfUploads: task.copies > 1 ? readersOfResults : parties.length,
    isActive: model?.isActive ?? false,
    isHybrid: task.parties.every((party) => party.keys.every((key) => isHybrid(key.public))),
  };
  return { ...facts, sentences: sentencesOf(facts).map((sentence) => inWords(sentence, language)) };
}

function sentencesOf(facts: Omit<Explanation, "sentences">): Sentence[] {
  const { fingerprint, until, policy, security } = facts;
  const over = facts.isOver ? said("meansOver") : "";
  const counting = facts.cap === null ? "" : said("meansCounting", { slots: facts.cap.slots });
  const groups = facts.groups.join(", ");
  const labels = facts.labels.length > 0 ? facts.labels.join(", ") : said("meansNoLabels");
  const unit = said(policy.unit === "client" ? "unitClient" : "unitRecord");
  const deviating = said(facts.isActive ? "meansActive" : "meansPassive");
  const colluding = { results: facts.readersOfResults, uploads: facts.readersOfUploads };
  return [
    said("meansTask", { fingerprint, until, over, least: facts.leastUploads }),
    said("meansRecords", { groups, labels, most: facts.mostRecords, counting }),
    ...facts.reveals.map(({ release }) => said("meansRevealed", { release, what: said(RELEASES[release]) })),
    said("meansClients", { admitted: said(ADMITTED[facts.admission]) }),
    said("meansSpent", { epsilon: policy.epsilon, delta: policy.delta, unit }),
    ...facts.parties.map((party, number) =>
      said("meansParty", {
        number,
        name: party.name,
        address: party.address || said("meansNoAddress"),
        bytes: party.envelopeBytes,
        key: party.keyId,
        until: party.keyUntil,
      }),
    ),
    said("meansModel", { model: security, deviating, ...colluding }),
    said(facts.isHybrid ? "meansHybrid" : "meansCurve"),
  ];
}
