/** Whether hexadecimal digits are a compressed point of P-256, as the public keys of parties' signatures are. */

const P = 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n;
const B = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn;

/** Return whether a key is usable: the square of some y is x^3 - 3x + b modulo p. */
export function isSigningKey(digits: string): boolean {
  if (!/^0[23][0-9a-f]{64}$/.test(digits)) {
    return false;
  }
  const x = BigInt(`0x${digits.slice(2)}`);
  if (x >= P) {
    return false;
  }
  const square = (((x * x * x - 3n * x + B) % P) + P) % P;
  const root = power(square, (P + 1n) / 4n); // as p is 3 modulo 4
  return (root * root) % P === square;
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  let square = base;
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) {
      result = (result * square) % P;
    }
    square = (square * square) % P;
  }
  return result;
}
