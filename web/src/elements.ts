/** The three arithmetics of shares; elements of one row are bytes, least first, so that they can be overwritten. */

import { wipe, type Bytes } from "./bytes.js";

export const SEED_BYTES = 32; // of the seed that stands for a component

export type ArithmeticName = "ring64" | "xor64" | "field127";

const LOW_31 = 0x7fffffff;
const ALL_ONES = 0xffffffff;

/** One arithmetic. Elements have as many 32-bit words as `elementBytes` / 4, least first. */
export interface Arithmetic {
  readonly elementBytes: number;

  /** Replace a uniform element's bytes by the element that they stand for. */
  reduce(elements: DataView, at: number): void;

  /** Replace an element a by a - b. */
  subtract(elements: DataView, subtracted: DataView, at: number): void;
}

class Ring64 implements Arithmetic {
  readonly elementBytes = 8;

  reduce(): void {
    // All words are elements.
  }

  subtract(elements: DataView, subtracted: DataView, at: number): void {
    const low = elements.getUint32(at, true);
    const lowSubtracted = subtracted.getUint32(at, true);
    const borrow = low < lowSubtracted ? 1 : 0;
    const high = elements.getUint32(at + 4, true) - subtracted.getUint32(at + 4, true) - borrow;
    elements.setUint32(at, low - lowSubtracted, true); // modulo 2^32
    elements.setUint32(at + 4, high, true);
  }
}

class Xor64 implements Arithmetic {
  readonly elementBytes = 8;

  reduce(): void {
    // All words are elements.
  }

  subtract(elements: DataView, subtracted: DataView, at: number): void {
    for (const word of [at, at + 4]) {
      elements.setUint32(word, elements.getUint32(word, true) ^ subtracted.getUint32(word, true), true);
    }
  }
}

/** Integers modulo the prime p = 2^127 - 1. */
class Field127 implements Arithmetic {
  readonly elementBytes = 16;

  reduce(elements: DataView, at: number): void {
    elements.setUint32(at + 12, elements.getUint32(at + 12, true) & LOW_31, true);
    this.makeCanonical(elements, at);
  }

  subtract(elements: DataView, subtracted: DataView, at: number): void {
    // p - b is b's complement in 127 bits, and a + (p - b) is below 2^128.
    let carry = 0;
    for (let word = 0; word < 16; word += 4) {
      const ones = word === 12 ? LOW_31 : ALL_ONES;
      const complement = (subtracted.getUint32(at + word, true) ^ ones) >>> 0;
      const sum = elements.getUint32(at + word, true) + complement + carry;
      elements.setUint32(at + word, sum, true);
      carry = sum > ALL_ONES ? 1 : 0;
    }
    // 2^127 is 1 modulo p, so the highest bit is added at the lowest place.
    const top = elements.getUint32(at + 12, true);
    elements.setUint32(at + 12, top & LOW_31, true);
    carry = top >>> 31;
    for (let word = 0; word < 16; word += 4) {
      const sum = elements.getUint32(at + word, true) + carry;
      elements.setUint32(at + word, sum, true);
      carry = sum > ALL_ONES ? 1 : 0;
    }
    this.makeCanonical(elements, at);
  }

  /** Replace p, which also stands for 0, by 0. */
  private makeCanonical(elements: DataView, at: number): void {
    const low = [at, at + 4, at + 8].every((word) => elements.getUint32(word, true) === ALL_ONES);
    if (low && elements.getUint32(at + 12, true) === LOW_31) {
      for (let word = 0; word < 16; word += 4) {
        elements.setUint32(at + word, 0, true);
      }
    }
  }
}

export const ARITHMETICS: Readonly<Record<ArithmeticName, Arithmetic>> = {
  ring64: new Ring64(),
  xor64: new Xor64(),
  field127: new Field127(),
};

export function isArithmetic(name: string): name is ArithmeticName {
  return Object.hasOwn(ARITHMETICS, name);
}

/** Return whole numbers from 0 to 2^53 - 1 as elements. */
export function encoded(row: Float64Array, arithmetic: Arithmetic): Bytes {
  const bytes = new Uint8Array(row.length * arithmetic.elementBytes);
  const elements = new DataView(bytes.buffer);
  row.forEach((value, i) => {
    const at = i * arithmetic.elementBytes;
    elements.setUint32(at, value % 2 ** 32, true);
    elements.setUint32(at + 4, Math.floor(value / 2 ** 32), true);
  });
  return bytes;
}

/** Return the row of elements that a seed stands for: AES-256 in counter mode, from 0. */
export async function expanded(seed: Bytes, count: number, arithmetic: Arithmetic): Promise<Bytes> {
  const key = await crypto.subtle.importKey("raw", seed, "AES-CTR", false, ["encrypt"]);
  const zeros = new Uint8Array(count * arithmetic.elementBytes);
  const counter = { name: "AES-CTR", counter: new Uint8Array(16), length: 128 };
  const bytes = new Uint8Array(await crypto.subtle.encrypt(counter, key, zeros));
  const elements = new DataView(bytes.buffer);
  for (let at = 0; at < bytes.length; at += arithmetic.elementBytes) {
    arithmetic.reduce(elements, at);
  }
  return bytes;
}

/**
 * Take from a row the row that a seed stands for, in place.
 *
 * With a fresh seed the rest is uniform and independent of the row, as far as AES's stream counts as random.
 */
export async function takeAway(rest: Bytes, seed: Bytes, arithmetic: Arithmetic): Promise<void> {
  const share = await expanded(seed, rest.length / arithmetic.elementBytes, arithmetic);
  const elements = new DataView(rest.buffer);
  const subtracted = new DataView(share.buffer);
  for (let at = 0; at < rest.length; at += arithmetic.elementBytes) {
    arithmetic.subtract(elements, subtracted, at);
  }
  wipe(share);
}
