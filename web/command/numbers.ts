/** Exact numbers, as the options of `share` have them. */

/** A fraction in its lowest terms. */
export interface Fraction {
  readonly top: bigint;
  readonly bottom: bigint; // at least 1
}

const LONGEST = 40; // characters of a number that is not two whole ones
const RATIO = /^[1-9][0-9]{0,399}\/[1-9][0-9]{0,399}$/;
const POWER = /^([0-9]{1,3})\^(-?[0-9]{1,3})$/;
const DECIMAL = /^([-+]?)([0-9]*)(?:\/([0-9]+)|(?:\.([0-9]*))?(?:[eE]([-+]?[0-9]{1,3}))?)$/;

/** Return a number that is written as `1`, `0.1`, `1/3`, `1e-3` or `2^-40`, exactly; null for any other text. */
export function exactNumber(given: string): Fraction | null {
  const text = given.trim();
  const power = POWER.exec(text);
  if (power !== null) {
    const base = BigInt(power[1] ?? "");
    const exponent = Number(power[2]);
    return exponent < 0 ? reduced(1n, base ** BigInt(-exponent)) : reduced(base ** BigInt(exponent), 1n);
  }
  const isReadable = text.length <= LONGEST || RATIO.test(text);
  const [, sign, whole = "", bottom, decimals, exponent] = (isReadable ? DECIMAL.exec(text) : null) ?? [];
  const digits = `${whole}${decimals ?? ""}`;
  if (sign === undefined || digits === "" || (bottom !== undefined && whole === "")) {
    return null;
  }
  const tens = Number(exponent ?? "0") - (decimals ?? "").length;
  const top = BigInt(digits) * 10n ** BigInt(Math.max(tens, 0)) * (sign === "-" ? -1n : 1n);
  return reduced(top, bottom === undefined ? 10n ** BigInt(Math.max(-tens, 0)) : BigInt(bottom));
}

/** Return a fraction as files have it: `3`, or `3/2`. */
export function fractionText({ top, bottom }: Fraction): string {
  return bottom === 1n ? String(top) : `${top}/${bottom}`;
}

/** Return top / bottom in its lowest terms, or null if bottom is 0. Args: bottom: at least 0. */
function reduced(top: bigint, bottom: bigint): Fraction | null {
  if (bottom === 0n) {
    return null;
  }
  let divisor = bottom;
  for (let rest = top < 0n ? -top : top; rest > 0n; ) {
    const next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  return { top: top / divisor, bottom: bottom / divisor };
}
