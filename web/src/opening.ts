/** Opens and checks a party's envelopes. No client needs this: it is for those who check what a client has sealed. */

import { Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256, HpkeError } from "@hpke/core";
import type { KemInterface, RecipientContextParams } from "@hpke/core";
import { XWing } from "@hpke/hybridkem-x-wing";
import { MlKem768, sha3_256 } from "mlkem";

import { areEqual, ascii, concatenated, fromHex, toHex, type Bytes } from "./bytes.js";
import { ARITHMETICS, expanded } from "./elements.js";
import { FairSharesError } from "./errors.js";
import { JsonFault, parseJson } from "./json.js";
import { BOUNDS_BYTES, DIGEST_BYTES, HEAD_BYTES, SALT_BYTES } from "./layout.js";
import { policyOf, type Policy } from "./policy.js";
import { commitmentOf, identityOf, infoOf, VERSION } from "./seal.js";
import { envelopeBytes, pieceBytes } from "./sizes.js";
import { heldBy, type Task } from "./task.js";

/** Why a party leaves an envelope out, in the project's words. */
export type Reason =
  | "longer or shorter than an envelope of the task"
  | "unreadable or of another version"
  | "of another task"
  | "sealed for a key that this party does not have"
  | "that the party's key does not open"
  | "changed since it was shared";

export interface OpenedEnvelope {
  readonly identity: string;
  readonly bounds: Policy | null;
  readonly elements: readonly bigint[]; // of each component that the party holds, one after the other
}

const CURVE_BYTES = 32;
const CURVE_CAPSULE_BYTES = 32;
const HYBRID_CAPSULE_BYTES = 1120;
const LATTICE_CAPSULE_BYTES = 1088;
const LATTICE_SEED_BYTES = 64;
const XWING_LABEL = ascii("\\.//^\\");

/**
 * Open and check an envelope; return what it has, or the first reason to leave it out.
 *
 * @param secrets the party's secret sealing keys, by their keys' IDs in hexadecimal digits
 */
export async function openEnvelope(
  task: Task,
  party: number,
  secrets: ReadonlyMap<string, Bytes>,
  envelope: Bytes,
): Promise<OpenedEnvelope | Reason> {
  if (envelope.length !== envelopeBytes(task, party)) {
    return "longer or shorter than an envelope of the task";
  }
  const head = envelope.slice(0, HEAD_BYTES);
  const identity = head.slice(36, 68);
  const digest = fromHex(task.fingerprint);
  const secret = secrets.get(toHex(head.slice(68)));
  if (!areEqual(head.slice(0, 4), VERSION)) {
    return "unreadable or of another version";
  }
  if (!areEqual(head.slice(4, 36), digest)) {
    return "of another task";
  }
  if (secret === undefined) {
    return "sealed for a key that this party does not have";
  }
  const content = await unsealed(secret, envelope.slice(HEAD_BYTES), await infoOf(head, party));
  if (content === null) {
    return "that the party's key does not open";
  }
  const bound = content.slice(0, BOUNDS_BYTES + DIGEST_BYTES * task.parties.length);
  if (!areEqual(await identityOf(digest, bound), identity)) {
    return "changed since it was shared";
  }
  const elements: bigint[] = [];
  let at = bound.length;
  for (const component of heldBy(task, party)) {
    const piece = content.slice(at, at + pieceBytes(task, component));
    const commitment = bound.slice(BOUNDS_BYTES + DIGEST_BYTES * component, BOUNDS_BYTES + DIGEST_BYTES * (component + 1));
    at += piece.length;
    if (!areEqual(await commitmentOf(piece), commitment)) {
      return "changed since it was shared";
    }
    elements.push(...(await elementsOf(task, component, piece.slice(SALT_BYTES))));
  }
  const bounds = statedBounds(bound.slice(0, BOUNDS_BYTES));
  if (bounds === undefined) {
    return "unreadable or of another version";
  }
  return { identity: toHex(identity), bounds, elements };
}

async function elementsOf(task: Task, component: number, payload: Bytes): Promise<bigint[]> {
  const arithmetic = ARITHMETICS[task.arithmetic];
  const isLast = component === task.parties.length - 1;
  const bytes = isLast ? payload : await expanded(payload, task.columns, arithmetic);
  const view = new DataView(bytes.buffer);
  const elements: bigint[] = [];
  for (let start = 0; start < bytes.length; start += arithmetic.elementBytes) {
    arithmetic.reduce(view, start);
    const digits = toHex(bytes.slice(start, start + arithmetic.elementBytes).reverse());
    elements.push(BigInt(`0x${digits}`));
  }
  return elements;
}

/** Return the policy that bounds state, null if they state none, or undefined for what is none. */
function statedBounds(bytes: Bytes): Policy | null | undefined {
  try {
    const value = parseJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return value === null ? null : policyOf(value);
  } catch (error) {
    if (error instanceof JsonFault || error instanceof FairSharesError || error instanceof TypeError) {
      return undefined;
    }
    throw error;
  }
}

async function unsealed(secret: Bytes, seal: Bytes, info: Bytes): Promise<Bytes | null> {
  const isHybrid = secret.length > CURVE_BYTES;
  const kem: KemInterface = isHybrid ? new HybridOfTwoSecrets(secret) : new DhkemX25519HkdfSha256();
  const suite = new CipherSuite({ kem, kdf: new HkdfSha256(), aead: new Aes256Gcm() });
  const capsuleBytes = isHybrid ? HYBRID_CAPSULE_BYTES : CURVE_CAPSULE_BYTES;
  try {
    const recipientKey = await kem.deserializePrivateKey(secret.slice(-CURVE_BYTES));
    const enc = seal.slice(0, capsuleBytes);
    return new Uint8Array(await suite.open({ recipientKey, enc, info }, seal.slice(capsuleBytes)));
  } catch (error) {
    if (error instanceof HpkeError) {
      return null;
    }
    throw error;
  }
}

/** X-Wing for a key that the project keeps as ML-KEM's seed and X25519's private key, without X-Wing's own seed. */
class HybridOfTwoSecrets extends XWing {
  constructor(private readonly secret: Bytes) {
    super();
  }

  override async decap(params: RecipientContextParams): Promise<ArrayBuffer> {
    const enc = params.enc instanceof Uint8Array ? params.enc : new Uint8Array(0);
    const lattice = new MlKem768();
    const [, latticeSecret] = await lattice.deriveKeyPair(this.secret.slice(0, LATTICE_SEED_BYTES));
    const curveSecret = this.secret.slice(LATTICE_SEED_BYTES);
    const base = new Uint8Array(CURVE_BYTES);
    base[0] = 9;
    const curveCapsule = enc.slice(LATTICE_CAPSULE_BYTES);
    const curvePublic = await this._x25519.derive(curveSecret, base);
    const curveShared = await this._x25519.derive(curveSecret, curveCapsule);
    const latticeShared = await lattice.decap(enc.slice(0, LATTICE_CAPSULE_BYTES), latticeSecret);
    const mixed = concatenated(latticeShared, curveShared, curveCapsule, curvePublic, XWING_LABEL);
    return concatenated(sha3_256.create().update(mixed).digest()).buffer;
  }
}
