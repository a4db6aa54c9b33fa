/** The command's own texts, a file for each language, and the language of whoever runs it. */

import { inWords, languageFor, type Language, type Sentence, type Values } from "../src/index.js";
import { Wordbook } from "../src/sentences.js";
import de from "./texts/de.json" with { type: "json" };
import en from "./texts/en.json" with { type: "json" };

export type TextKey = keyof typeof en;

export const COMMAND_TEXTS = new Wordbook<TextKey>({ en, de });

/** The language of this process, by the variables that say so to all commands, or English. */
export const LANGUAGE: Language = languageFor([
  process.env["LC_ALL"] || process.env["LC_MESSAGES"] || process.env["LANG"] || "",
]);

/** Return a sentence of the command. */
export function said(key: TextKey, values: Values = {}): Sentence {
  return COMMAND_TEXTS.sentence(key, values);
}

/** Return choices as a part of a sentence: `a or b`. */
export function either(choices: readonly string[]): Sentence {
  const [first = "", ...others] = choices;
  return others.reduce((before, choice) => said("either", { before, choice }), said("choice", { choice: first }));
}

/** Return a sentence of the command in the language of whoever runs it. */
export function words(key: TextKey, values: Values = {}): string {
  return inWords(said(key, values), LANGUAGE);
}
