/** The library's own texts, a file for each language. */

import { Wordbook, type Sentence, type Values } from "./sentences.js";
import de from "./texts/de.json" with { type: "json" };
import en from "./texts/en.json" with { type: "json" };

export type TextKey = keyof typeof en;

export const LIBRARY_TEXTS = new Wordbook<TextKey>({ en, de });

/** Return a sentence of the library. */
export function said(key: TextKey, values: Values = {}): Sentence {
  return LIBRARY_TEXTS.sentence(key, values);
}
