/** The text of tasks, and the text of this library itself. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { canonicalJson, JsonFault, parseJson, sortedByCodePoint } from "../src/json.js";

test("numbers are written as Python writes them", () => {
  // Each is `json.dumps(json.loads(text))` of Python.
  const floats: Readonly<Record<string, string>> = {
    "0.5": "0.5",
    "1.0": "1.0",
    "-0.0": "-0.0",
    "1e-5": "1e-05",
    "0.0001": "0.0001",
    "123456789012345680.0": "1.2345678901234568e+17",
    "1e16": "1e+16",
    "1e15": "1000000000000000.0",
    "1.7976931348623157e308": "1.7976931348623157e+308",
    "5e-324": "5e-324",
    "0.1e1": "1.0",
    "4611686018427387903": "4611686018427387903",
    "-0": "0",
  };
  for (const [text, written] of Object.entries(floats)) {
    assert.equal(canonicalJson(parseJson(text)), written);
  }
});

test("texts are escaped as Python escapes them, and keys are sorted", () => {
  const written = '{"a":"\\u00df\\u007f\\ud83d\\ude00\\n\\"\\\\/","b":[]}';
  assert.equal(canonicalJson(parseJson('{"b": [], "a": "\\u00DF\u007f😀\\n\\"\\\\\\/"}')), written);
});

test("names are sorted by code points, not by UTF-16 units", () => {
  assert.deepEqual(sortedByCodePoint(["😀", "\ue000", "b", "a", "ab", "Z"]), ["Z", "a", "ab", "b", "\ue000", "😀"]);
});

test("what is not JSON is refused", () => {
  const bad = ["", "{", "[1,]", '{"a":1,}', "01", "1.", ".5", "+1", "NaN", "tru", '"\u0001"', '"\\x"', '"\\', '"', "1 2", "'a'",
    '{"a":1,"a":2}', '"\\ud800"', "1e999", `1${"0".repeat(100)}`, "[".repeat(101), "{1:2}", '{"a" 1}'];
  for (const text of bad) {
    assert.throws(() => parseJson(text), JsonFault, text);
  }
});

test("no type is left open, and none is only claimed", () => {
  const folders = ["../src/", "../page/", "../command/", "../test/"].map((name) => new URL(name, import.meta.url));
  const files = folders.flatMap((folder) => readdirSync(folder).map((name) => new URL(name, folder)));
  const sources = files.filter(({ pathname }) => pathname.endsWith(".ts"));
  assert.ok(sources.length > 20);
  for (const file of sources) {
    const text = readFileSync(file, "utf-8");
    const code = text.replace(/\/\*[^]*?\*\/|\/\/.*|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`/g, '""');
    assert.doesNotMatch(code, /\bany\b|\bas (?!const\b)/, file.pathname);
    assert.doesNotMatch(text, new RegExp(`@ts${"-"}`), file.pathname);
  }
});

test("randomness comes from WebCrypto alone", () => {
  for (const folder of ["../src/", "../page/", "../command/"].map((name) => new URL(name, import.meta.url))) {
    for (const name of readdirSync(folder).filter((file) => file.endsWith(".ts"))) {
      assert.doesNotMatch(readFileSync(new URL(name, folder), "utf-8"), new RegExp(`Math\\.${"random"}`));
    }
  }
});
