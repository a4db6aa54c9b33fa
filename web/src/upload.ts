/** Sends a client's envelopes to the parties' servers, and says how the sending of each ended. */

import { randomFraction, toHex } from "./bytes.js";
import { OptionError } from "./errors.js";
import type { SealedUpload } from "./seal.js";
import { envelopeBytes } from "./sizes.js";
import type { Task } from "./task.js";
import { inWords, type Sentence } from "./sentences.js";
import { said } from "./texts.js";

/** How the sending of an envelope ended. An *unknown* one may count, so the same envelope is sent again, never a new one. */
export type Outcome = "stored" | "not stored" | "unknown";

/** What is known of an envelope. One that is "sending" after a reload is *unknown*. */
export type SendingState = "not sent" | "sending" | Outcome;

export interface PartyResult {
  readonly party: number;
  readonly name: string;
  readonly outcome: Outcome;
  readonly answer: string; // the last one, in English
  readonly sentence: Sentence; // the same
}

export interface UploadOptions {
  /** A URL per party in place of the task's addresses: before each envelope's name if it ends in a slash, else of this one. */
  readonly addresses?: readonly string[];
  /** What is known of each envelope from an earlier try; nothing was sent, if left out. */
  readonly earlier?: readonly SendingState[];
  /** Keeps what is known of an envelope, before and after requests, so that a reload does not forget it. */
  readonly keep?: (party: number, state: SendingState) => Promise<void> | void;
  /** In place of the runtime's. */
  readonly fetch?: typeof fetch;
  /** In place of waiting for so many seconds. */
  readonly wait?: (seconds: number) => Promise<void>;
}

const PAUSES_S = [0.5, 1, 2, 4, 8]; // between tries, and up to twice as long
const SILENCE_S = 30;
const SLOWEST_BYTES_PER_S = 4096; // fetch cannot tell a slow upload from silence
const HEADERS = { "Content-Type": "application/octet-stream", "If-None-Match": "*" };

// Why a connection did not come about, by the codes of Node; browsers do not tell.
const UNREACHED = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];
const UNTRUSTED = [
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "CERT_REVOKED",
  "CERT_UNTRUSTED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
];

/** How one request ended. */
type Ending =
  | { readonly kind: "status"; readonly status: number; readonly answer: Sentence }
  | { readonly kind: "redirected" | "untrusted" | "unreached" | "unanswered"; readonly answer: Sentence };

/**
 * Send an upload's envelopes to all parties at once, again where that may help, and return how each ended.
 *
 * Each try sends the same bytes. A name that is taken (409 or 412) is no success, as a stranger's bytes may have it; after
 * a request without an answer it may be the envelope itself, which is *unknown*. Of an answer only the status is read. A
 * browser does not say why a connection failed, so there each failed one counts as one that the server may have stored.
 *
 * Raises OptionError, before anything is sent, for an address to which this cannot send, and for envelopes that are not
 * the task's. Raises what `keep` raises, when the sending to all parties has ended; what it could not keep before a
 * request was not sent.
 */
export async function upload(task: Task, sealed: SealedUpload, options: UploadOptions = {}): Promise<PartyResult[]> {
  checkEnvelopes(task, sealed);
  const urls = urlsOf(task, sealed.identity, options.addresses);
  const earlier = options.earlier ?? task.parties.map((): SendingState => "not sent");
  if (earlier.length !== task.parties.length) {
    throw new OptionError(said("uploadStates", { parties: task.parties.length, states: earlier.length }));
  }
  const ends = await Promise.allSettled(
    task.parties.map(async ({ name }, party): Promise<PartyResult> => {
      const state = earlier[party] ?? "not sent";
      const envelope = sealed.envelopes[party];
      const url = urls[party];
      if (state === "stored" || envelope === undefined || url === undefined) {
        return resultOf(party, name, { outcome: "stored", answer: said("answerBefore") });
      }
      await options.keep?.(party, "sending");
      const isUnanswered = state === "sending" || state === "unknown";
      const end = await sent(url, envelope, isUnanswered, task.admission === "certificate", options);
      await options.keep?.(party, end.outcome);
      return resultOf(party, name, end);
    }),
  );
  return ends.map((end) => {
    if (end.status === "rejected") {
      throw end.reason; // of `keep`, once nothing is under way any more
    }
    return end.value;
  });
}

/** Raise OptionError for envelopes of another task, of another upload, or of another length. */
function checkEnvelopes(task: Task, sealed: SealedUpload): void {
  const areOfTask = task.parties.every((_, party) => {
    const envelope = sealed.envelopes[party] ?? new Uint8Array(0);
    const isOfTask = toHex(envelope.subarray(4, 36)) === task.fingerprint;
    const isOfUpload = toHex(envelope.subarray(36, 68)) === sealed.identity;
    return isOfTask && isOfUpload && envelope.length === envelopeBytes(task, party);
  });
  if (!areOfTask || sealed.envelopes.length !== task.parties.length) {
    throw new OptionError(said("uploadOther"));
  }
}

/** Return where each party's envelope goes, or raise OptionError. */
function urlsOf(task: Task, identity: string, given: readonly string[] | undefined): string[] {
  const addresses = given ?? task.parties.map((party) => party.address);
  if (addresses.length !== task.parties.length) {
    throw new OptionError(said("uploadAddresses", { parties: task.parties.length, addresses: addresses.length }));
  }
  if (task.admission === "urls" && addresses.some((address) => address.endsWith("/"))) {
    throw new OptionError(said("uploadUrls"));
  }
  return addresses.map((address) => {
    if (!/^https:\/\/[!-~]+$/.test(address)) {
      throw new OptionError(said("uploadUrl", { address: address === "" ? said("uploadNoAddress") : address }));
    }
    return address.endsWith("/") ? `${address}${identity}.share` : address;
  });
}

/** How the sending of an envelope ended, and the last answer. */
interface End {
  readonly outcome: Outcome;
  readonly answer: Sentence;
}

function resultOf(party: number, name: string, { outcome, answer }: End): PartyResult {
  return { party, name, outcome, answer: inWords(answer, "en"), sentence: answer };
}

/** Send one envelope, again if need be. `isUnanswered` says whether an earlier request had no answer. */
async function sent(
  url: string,
  envelope: Uint8Array<ArrayBuffer>,
  isUnanswered: boolean,
  showsCertificate: boolean,
  options: UploadOptions,
): Promise<End> {
  const wait = options.wait ?? waited;
  let mayBeStored = isUnanswered;
  let answer = said("answerBroken");
  for (const pause of [...PAUSES_S, null]) {
    const end = await request(url, envelope, showsCertificate, options.fetch ?? fetch);
    answer = end.answer;
    if (end.kind === "status" && end.status >= 200 && end.status < 300) {
      return { outcome: "stored", answer };
    }
    if (end.kind === "untrusted") {
      return { outcome: mayBeStored ? "unknown" : "not stored", answer };
    }
    const isRefused = end.kind === "status" && end.status !== 429 && end.status < 500;
    if (end.kind === "redirected" || isRefused) {
      break;
    }
    if (end.kind === "unanswered" || (end.kind === "status" && end.status >= 500)) {
      mayBeStored = true;
    }
    if (pause !== null) {
      await wait(pause * (1 + randomFraction()));
    }
  }
  return { outcome: mayBeStored ? "unknown" : "not stored", answer };
}

async function request(
  url: string,
  envelope: Uint8Array<ArrayBuffer>,
  showsCertificate: boolean,
  send: typeof fetch,
): Promise<Ending> {
  if (globalThis.navigator?.onLine === false) {
    return { kind: "unreached", answer: said("answerOffline") };
  }
  const seconds = SILENCE_S + Math.ceil(envelope.length / SLOWEST_BYTES_PER_S);
  const signal = AbortSignal.timeout(1000 * seconds);
  let response: Response;
  try {
    response = await send(url, {
      method: "PUT",
      body: envelope,
      headers: HEADERS,
      redirect: "manual",
      cache: "no-store",
      credentials: showsCertificate ? "include" : "omit",
      referrerPolicy: "no-referrer",
      signal,
    });
  } catch (error) {
    return brokenBy(error, signal);
  }
  const { status, type } = response;
  response.body?.cancel().catch(() => undefined); // it could have no end
  if (type === "opaqueredirect") {
    return { kind: "redirected", answer: said("answerElsewhere") };
  }
  return { kind: "status", status, answer: said("answerStatus", { status }) };
}

function brokenBy(error: unknown, signal: AbortSignal): Ending {
  if (signal.aborted) {
    return { kind: "unanswered", answer: said("answerLate") };
  }
  const code = codeOf(error);
  if (UNTRUSTED.includes(code)) {
    return { kind: "untrusted", answer: said("answerUntrusted", { code }) };
  }
  if (UNREACHED.includes(code)) {
    return { kind: "unreached", answer: said("answerNobody") };
  }
  return { kind: "unanswered", answer: said("answerBroken") };
}

function codeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof AggregateError) {
    return codeIn(cause.errors[0]); // of several addresses of one name
  }
  return codeIn(cause);
}

function codeIn(cause: unknown): string {
  if (typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string") {
    return cause.code;
  }
  return "";
}

function waited(seconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 1000 * seconds);
  });
}
