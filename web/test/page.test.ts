/** The page's texts and links, without a browser. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { addressesOf, linkOf } from "../page/invitation.js";
import { textsIn } from "../page/texts.js";
import { COMMAND_TEXTS } from "../command/texts.js";
import { LANGUAGES, languageFor } from "../src/index.js";
import { fill } from "../src/sentences.js";
import { LIBRARY_TEXTS } from "../src/texts.js";
import { taskWith, TASK_TEXT } from "./support.js";

const SECRET = "AAECAwQFBgcICQoLDA0ODw"; // the bytes 0 to 15
const PARTIES: readonly Record<string, unknown>[] = JSON.parse(TASK_TEXT).parties;

function places(text: string): string[] {
  return [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? "").sort();
}

test("all languages have the same texts, with the same values in them", () => {
  const page = { en: textsIn("en"), de: textsIn("de") };
  const all: Readonly<Record<string, Readonly<Record<(typeof LANGUAGES)[number], Readonly<Record<string, string>>>>>> = {
    page,
    library: LIBRARY_TEXTS.texts,
    command: COMMAND_TEXTS.texts,
  };
  for (const [part, texts] of Object.entries(all)) {
    const english = Object.entries(texts.en);
    assert.ok(english.length > 50, part);
    for (const language of LANGUAGES) {
      const others = new Map(Object.entries(texts[language]));
      assert.deepEqual([...others.keys()], english.map(([name]) => name), `${part}, ${language}`);
      for (const [name, text] of english) {
        const other = others.get(name) ?? "";
        assert.deepEqual(places(other), places(text), `${part}, ${language}: ${name}`);
        assert.ok(other.trim() === other && other !== "" && !/  /.test(other), `${part}, ${language}: ${name}`);
      }
    }
  }
});

test("a reader's first language that there is counts", () => {
  assert.equal(languageFor(["fr-FR", "de-AT", "en"]), "de");
  assert.equal(languageFor(["fr", "toString"]), "en");
  assert.equal(languageFor(["de_AT.UTF-8"]), "de");
  assert.equal(languageFor(["C.UTF-8"]), "en");
});

test("values are filled in once, and a missing one is seen", () => {
  assert.equal(fill("{a} and {b}", { a: "{b}" }), "{b} and {b}");
  assert.equal(fill("{n}", { n: 2n ** 62n }), "4611686018427387904");
});

test("a link names its task and its invitation, or is refused", async () => {
  const task = await taskWith({});
  const own = `#task=${task.fingerprint.slice(0, 16)}`;
  assert.equal(linkOf("", task).kind, "none");
  assert.equal(linkOf(own, task).kind, "none");
  assert.equal(linkOf(`#task=${"0".repeat(16)}&invitation=${SECRET}`, task).kind, "other task");
  assert.deepEqual(linkOf(`${own}&invitation=${SECRET}`, task), {
    kind: "invitation",
    secret: Uint8Array.from({ length: 16 }, (_, i) => i),
  });
  for (const broken of [own.slice(0, -1), `${own}&invitation=`, `${own}&invitation=${SECRET.slice(1)}`,
    `${own}&invitation=${SECRET}A`, `${own}&invitation=${SECRET.slice(1)}%20`, `#invitation=${SECRET}`]) {
    assert.equal(linkOf(broken, task).kind, "broken", broken);
  }
});

test("each party's address of an invitation has a token of its own", async () => {
  const task = await taskWith({ parties: PARTIES.map((party, i) => ({ ...party, address: `https://p${i}.example/x/` })) });
  const addresses = await addressesOf(task, Uint8Array.from({ length: 16 }, (_, i) => i));
  addresses.forEach((address, party) => {
    const digest = createHash("sha256").update("fairshares:invitation:1\n");
    digest.update(Buffer.from(task.fingerprint, "hex")).update(Buffer.from([...Array(16).keys(), party]));
    assert.equal(address, `https://p${party}.example/x/${digest.digest("hex")}.share`);
  });
});
