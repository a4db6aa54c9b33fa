/** Bytes: hexadecimal digits, digests, randomness, and overwriting. */

/** Bytes that are no view of memory shared with another thread, as WebCrypto asks for. */
export type Bytes = Uint8Array<ArrayBuffer>;

export function ascii(text: string): Bytes {
  return Uint8Array.from(text, (sign) => sign.charCodeAt(0));
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the bytes of an even number of hexadecimal digits. */
export function fromHex(digits: string): Bytes {
  const bytes = new Uint8Array(digits.length / 2);
  for (let i = 0; i < bytes.length; i += 1) {
    bytes[i] = Number.parseInt(digits.slice(2 * i, 2 * i + 2), 16);
  }
  return bytes;
}

export function concatenated(...parts: readonly Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

/** Return the SHA-256 of some bytes; a copy of them that this makes is wiped. */
export async function sha256(...parts: readonly Uint8Array[]): Promise<Bytes> {
  const whole = concatenated(...parts);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
  wipe(whole);
  return digest;
}

export function randomBytes(size: number): Bytes {
  return crypto.getRandomValues(new Uint8Array(size));
}

/**
 * Return a uniform whole number from 0 to below - 1.
 *
 * Words of which the last, incomplete, run of `below` numbers would make some numbers more likely are drawn again.
 *
 * @param below at least 1, at most 2^32
 */
export function randomBelow(below: number): number {
  const word = new Uint32Array(1);
  const usable = 2 ** 32 - (2 ** 32 % below);
  for (;;) {
    crypto.getRandomValues(word);
    const drawn = word[0] ?? 0;
    if (drawn < usable) {
      word.fill(0);
      return drawn % below;
    }
  }
}

/** Return a uniform multiple of 2^-53 from 0 to 1 - 2^-53. */
export function randomFraction(): number {
  const words = crypto.getRandomValues(new Uint32Array(2));
  const fraction = (((words[0] ?? 0) >>> 5) * 2 ** 26 + ((words[1] ?? 0) >>> 6)) / 2 ** 53;
  words.fill(0);
  return fraction;
}

/** Overwrite secrets with zeros. Copies that the runtime made by itself are out of reach. */
export function wipe(...secrets: readonly (Uint8Array | Float64Array)[]): void {
  for (const secret of secrets) {
    secret.fill(0);
  }
}
