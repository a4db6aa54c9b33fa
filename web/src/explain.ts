/** What a task means to those who take part. */

import { fromHex, toHex } from "./bytes.js";
import { modelOf } from "./models.js";
import { RELEASES, type Policy, type ReleaseName } from "./policy.js";
import { keyIdOf } from "./seal.js";
import { envelopeBytes } from "./sizes.js";
import { isHybrid } from "./sealing.js";
import { activeKey, dayOf, type Admission, type Task } from "./task.js";
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
  readonly sentences: readonly string[]; // all of this in English
}

const ADMITTED: Readonly<Record<Admission, string>> = {
  anyone: "anyone who reaches a server uploads, any number of times",
  certificate: "servers take uploads of those who show a certificate that they trust",
  urls: "servers take an upload at a URL that was given for it alone",
};

/** Return what a task means. Raises TaskError if all keys of a party have expired. */
export async function explain(task: Task, now: Date = new Date()): Promise<Explanation> {
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
    reveals: task.policy.tasks.map((release) => ({ release, what: RELEASES[release] })),
    policy: task.policy,
    admission: task.admission,
    security: task.security,
    parties,
    readersOfResults,
    readersOfUploads: task.copies > 1 ? readersOfResults : parties.length,
    isActive: model?.isActive ?? false,
    isHybrid: task.parties.every((party) => party.keys.every((key) => isHybrid(key.public))),
  };
  return { ...facts, sentences: sentencesOf(facts) };
}

function sentencesOf(facts: Omit<Explanation, "sentences">): string[] {
  const ended = facts.isOver ? ", which is over by this machine's clock" : "";
  const counting = facts.cap === null ? "" : `, of which ${facts.cap.slots} count`;
  const labels = facts.labels.length > 0 ? facts.labels.join(", ") : "none";
  const deviating = facts.isActive ? "whatever they send" : "as long as they follow the protocol";
  return [
    `Task ${facts.fingerprint}: clients share until ${facts.until}${ended}; a run counts at least ${facts.leastUploads}.`,
    `Records: groups ${facts.groups.join(", ")}; labels ${labels}; at most ${facts.mostRecords} of a client${counting}.`,
    ...facts.reveals.map(({ release, what }) => `Revealed to all parties by ${release}: ${what}.`),
    `Clients: ${ADMITTED[facts.admission]}.`,
    `All runs on an upload spend at most ε = ${facts.policy.epsilon} and δ = ${facts.policy.delta}, per ${facts.policy.unit}.`,
    ...facts.parties.map(
      (party, number) =>
        `Party ${number}: ${party.name}, ${party.address || "no address"}; ${party.envelopeBytes} bytes of an envelope; ` +
        `key ${party.keyId} until ${party.keyUntil}.`,
    ),
    `Model ${facts.security}: fewer than ${facts.readersOfResults} parties that collude learn nothing but the results, ` +
      `${deviating}; ${facts.readersOfUploads} can read single uploads.`,
    facts.isHybrid
      ? "Sealed by ML-KEM-768 and X25519 together."
      : "Sealed by X25519 alone: whoever keeps all envelopes until that is broken can read them.",
  ];
}
