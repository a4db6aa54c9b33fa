/** Seals of bytes for a key's holder: HPKE in base mode, RFC 9180. */

import { Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256, HpkeError } from "@hpke/core";
import { XWing } from "@hpke/hybridkem-x-wing";

import { concatenated, type Bytes } from "./bytes.js";
import { UnsupportedError } from "./errors.js";
import { said } from "./texts.js";

const CURVE_BYTES = 32;
const HYBRID_BYTES = 1216; // ML-KEM-768's 1,184 first
const TAG_BYTES = 16;
const CURVE_CAPSULE_BYTES = 32;
const HYBRID_CAPSULE_BYTES = 1120;

// A key that anybody can open: the base point. It tells a key that is unusable from a runtime that cannot seal.
const BASE_POINT = new Uint8Array(CURVE_BYTES);
BASE_POINT[0] = 9;

/** Return the number of bytes that a seal adds, by the bytes of the public key, or null for no key of this version. */
export function sealOverhead(keyBytes: number): number | null {
  switch (keyBytes) {
    case CURVE_BYTES:
      return CURVE_CAPSULE_BYTES + TAG_BYTES;
    case HYBRID_BYTES:
      return HYBRID_CAPSULE_BYTES + TAG_BYTES;
    default:
      return null;
  }
}

/** Return whether seals withstand attacks on elliptic curves. */
export function isHybrid(publicKey: string): boolean {
  return publicKey.length === 2 * HYBRID_BYTES;
}

/** Return the encapsulated key, then the ciphertext with its tag. Raises an error for an unusable key. */
export async function sealed(publicKey: Bytes, plain: Bytes, info: Bytes): Promise<Bytes> {
  const suite = suiteFor(publicKey.length);
  const recipientPublicKey = await suite.kem.deserializePublicKey(publicKey);
  const { enc, ct } = await suite.seal({ recipientPublicKey, info }, plain);
  return concatenated(new Uint8Array(enc), new Uint8Array(ct));
}

/**
 * Return whether a key can be sealed for.
 *
 * Raises UnsupportedError where no key can, as in a browser without X25519.
 */
export async function isSealable(publicKey: Bytes): Promise<boolean> {
  try {
    await sealed(publicKey, new Uint8Array(0), new Uint8Array(0));
    return true;
  } catch (error) {
    if (!(error instanceof HpkeError)) {
      throw error;
    }
    await checkRuntime();
    return false;
  }
}

async function checkRuntime(): Promise<void> {
  try {
    await sealed(BASE_POINT, new Uint8Array(0), new Uint8Array(0));
  } catch (error) {
    if (!(error instanceof HpkeError)) {
      throw error;
    }
    throw new UnsupportedError(said("unsupported"));
  }
}

function suiteFor(keyBytes: number): CipherSuite {
  const kem = keyBytes === CURVE_BYTES ? new DhkemX25519HkdfSha256() : new XWing();
  return new CipherSuite({ kem, kdf: new HkdfSha256(), aead: new Aes256Gcm() });
}
