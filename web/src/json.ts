/** JSON from others, read strictly, and the one way in which a task's file writes it. */

import { inWords, type Sentence } from "./sentences.js";
import { said } from "./texts.js";

const MOST_BYTES = 2 ** 24;
const MOST_VALUES = MOST_BYTES / 8;
const MOST_CONTAINERS = MOST_BYTES / 64;
const MOST_DEPTH = 100;
const MOST_DIGITS = 100;
const SHOWN = 40; // characters of a name in a message

/** A number as it is written, since JavaScript's own numbers do not tell 1 from 1.0, nor hold 2^62 - 1. */
export class JsonNumber {
  constructor(readonly text: string) {}

  get isWhole(): boolean {
    return !/[.eE]/.test(this.text);
  }

  get value(): number {
    return Number(this.text);
  }

  /** Raises SyntaxError unless the number is whole. */
  get exact(): bigint {
    return BigInt(this.text);
  }
}

export type JsonObject = ReadonlyMap<string, JsonValue>;
export type JsonValue = null | boolean | string | JsonNumber | readonly JsonValue[] | JsonObject;

/** What is wrong with a text, as the end of a sentence. */
export class JsonFault extends Error {
  override name = "JsonFault";

  constructor(readonly sentence: Sentence) {
    super(inWords(sentence, "en"));
  }
}

/**
 * Return the content of a text in JSON.
 *
 * Raises JsonFault for what is not JSON, for a key that an object has twice, half a character, a number that is not
 * finite, and for more bytes, values, depth or digits than the project's Python reads.
 */
export function parseJson(text: string): JsonValue {
  if (text.length > MOST_BYTES) {
    throw new JsonFault(said("jsonBytes", { most: MOST_BYTES }));
  }
  return new Reader(text).whole();
}

/** Return the text that bytes are in UTF-8, as it stands; raise JsonFault for bytes that are none. */
export function utf8Text(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new JsonFault(said("jsonText"));
  }
}

/** Return the text of a value with sorted keys, no spaces, and non-ASCII characters escaped. */
export function canonicalJson(value: JsonValue): string {
  if (value === null || typeof value === "boolean") {
    return String(value);
  }
  if (typeof value === "string") {
    return quoted(value);
  }
  if (value instanceof JsonNumber) {
    return value.isWhole ? value.exact.toString() : shortestFloat(value.value);
  }
  if (isList(value)) {
    return `[${value.map(canonicalJson).join(",")}]`;
  }
  const names = sortedByCodePoint([...value.keys()]);
  const fields = names.map((name) => `${quoted(name)}:${canonicalJson(value.get(name) ?? null)}`);
  return `{${fields.join(",")}}`;
}

export function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}

export function isObject(value: JsonValue): value is JsonObject {
  return value instanceof Map;
}

/** Return texts in the order of their Unicode code points; `sort()` alone compares UTF-16 units. */
export function sortedByCodePoint(texts: readonly string[]): string[] {
  const points = new Map(texts.map((text) => [text, Array.from(text, (sign) => sign.codePointAt(0) ?? 0)]));
  return [...texts].sort((a, b) => {
    const left = points.get(a) ?? [];
    const right = points.get(b) ?? [];
    for (let i = 0; i < Math.min(left.length, right.length); i += 1) {
      const difference = (left[i] ?? 0) - (right[i] ?? 0);
      if (difference !== 0) {
        return difference;
      }
    }
    return left.length - right.length;
  });
}

/** Return a name for a message, shortened. */
export function shown(name: string): string {
  return name.length > SHOWN ? `'${name.slice(0, SHOWN)}…'` : `'${name}'`;
}

function quoted(text: string): string {
  const ascii = JSON.stringify(text).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return ascii;
}

/**
 * Return the shortest text of a float, as Python writes it: both languages choose the same digits, but Python takes an
 * exponent below 10^-4 and from 10^16 on, and always tells a float from a whole number.
 */
function shortestFloat(value: number): string {
  if (Object.is(value, -0)) {
    return "-0.0";
  }
  if (value === 0) {
    return "0.0";
  }
  const sign = value < 0 ? "-" : "";
  const [mantissa = "", power = "0"] = Math.abs(value).toExponential().split("e");
  const digits = mantissa.replace(".", "");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const fraction = digits.length > 1 ? `.${digits.slice(1)}` : "";
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${digits.slice(0, 1)}${fraction}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < 0) {
    return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  }
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}

class Reader {
  private at = 0;
  private values = 0;
  private containers = 0;
  private depth = 0;

  constructor(private readonly text: string) {}

  whole(): JsonValue {
    const value = this.value();
    this.skipBlanks();
    if (this.at < this.text.length) {
      throw this.notJson();
    }
    return value;
  }

  private value(): JsonValue {
    this.skipBlanks();
    this.values += 1;
    if (this.values > MOST_VALUES) {
      throw new JsonFault(said("jsonValues", { most: MOST_VALUES }));
    }
    switch (this.text[this.at]) {
      case "{":
        return this.object();
      case "[":
        return this.list();
      case '"':
        return this.string();
      case "t":
        return this.word("true", true);
      case "f":
        return this.word("false", false);
      case "n":
        return this.word("null", null);
      default:
        return this.number();
    }
  }

  private object(): JsonObject {
    const fields = new Map<string, JsonValue>();
    this.open();
    if (!this.takes("}")) {
      do {
        this.skipBlanks();
        const name = this.string();
        if (fields.has(name)) {
          throw new JsonFault(said("jsonTwice", { name: shown(name) }));
        }
        this.expect(":");
        fields.set(name, this.value());
      } while (this.takes(","));
      this.expect("}");
    }
    this.depth -= 1;
    return fields;
  }

  private list(): readonly JsonValue[] {
    const values: JsonValue[] = [];
    this.open();
    if (!this.takes("]")) {
      do {
        values.push(this.value());
      } while (this.takes(","));
      this.expect("]");
    }
    this.depth -= 1;
    return values;
  }

  private open(): void {
    this.at += 1;
    this.depth += 1;
    this.containers += 1;
    if (this.depth > MOST_DEPTH) {
      throw new JsonFault(said("jsonDepth", { most: MOST_DEPTH }));
    }
    if (this.containers > MOST_CONTAINERS) {
      throw new JsonFault(said("jsonContainers", { most: MOST_CONTAINERS }));
    }
  }

  private string(): string {
    const start = this.at;
    if (this.text[start] !== '"') {
      throw this.notJson();
    }
    let end = start + 1;
    while (end < this.text.length && this.text[end] !== '"') {
      end += this.text[end] === "\\" ? 2 : 1;
    }
    this.at = end + 1;
    let text: unknown;
    try {
      text = JSON.parse(this.text.slice(start, this.at));
    } catch {
      throw this.notJson();
    }
    if (typeof text !== "string" || /\p{Surrogate}/u.test(text)) {
      throw this.notJson(); // half a character
    }
    return text;
  }

  private number(): JsonNumber {
    const number = new JsonNumber(this.match(/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y));
    if (number.text.length > MOST_DIGITS) {
      throw new JsonFault(said("jsonDigits", { most: MOST_DIGITS }));
    }
    if (!Number.isFinite(number.value)) {
      throw new JsonFault(said("jsonInfinite"));
    }
    return number;
  }

  private word<T extends boolean | null>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) {
      throw this.notJson();
    }
    this.at += word.length;
    return value;
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) {
      throw this.notJson();
    }
    this.at = pattern.lastIndex;
    return found[0];
  }

  private takes(sign: string): boolean {
    this.skipBlanks();
    if (this.text[this.at] !== sign) {
      return false;
    }
    this.at += 1;
    return true;
  }

  private expect(sign: string): void {
    if (!this.takes(sign)) {
      throw this.notJson();
    }
  }

  private skipBlanks(): void {
    while (/[ \t\n\r]/.test(this.text[this.at] ?? "")) {
      this.at += 1;
    }
  }

  private notJson(): JsonFault {
    return new JsonFault(said("jsonNone"));
  }
}
