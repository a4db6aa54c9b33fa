/** One file that holds several in folders, in the format of `tar` (POSIX.1-1988, ustar). */

import { ascii, concatenated, type Bytes } from "../src/bytes.js";

export interface NamedFile {
  readonly name: string; // with its folder, in ASCII, at most 100 characters
  readonly content: Uint8Array;
}

const BLOCK = 512;

/** Return an archive. Its files are readable by their owner alone, and have no time, as it is nobody's business. */
export function archive(files: readonly NamedFile[]): Bytes {
  const parts = files.flatMap(({ name, content }) => {
    const padding = new Uint8Array((BLOCK - (content.length % BLOCK)) % BLOCK);
    return [header(name, content.length), content, padding];
  });
  return concatenated(...parts, new Uint8Array(2 * BLOCK));
}

function header(name: string, size: number): Bytes {
  const made = new Uint8Array(BLOCK);
  made.set(ascii(name), 0);
  made.set(octal(0o600, 8), 100);
  made.set(octal(0, 8), 108); // the owner's number
  made.set(octal(0, 8), 116); // the group's
  made.set(octal(size, 12), 124);
  made.set(octal(0, 12), 136); // the time
  made.set(ascii("        "), 148); // in the place of the sum, while it is computed
  made.set(ascii("0"), 156); // a regular file
  made.set(ascii("ustar\u000000"), 257);
  const sum = made.reduce((all, byte) => all + byte, 0);
  made.set(octal(sum, 7), 148);
  return made;
}

/** Return a number in octal digits and a zero byte, in so many bytes. */
function octal(number: number, bytes: number): Bytes {
  return ascii(`${number.toString(8).padStart(bytes - 1, "0")}\u0000`);
}
