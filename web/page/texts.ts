/** The page's own texts, and the wording of the task's maker. */

import { LANGUAGES, type Language } from "../src/index.js";
import de from "./texts/de.json" with { type: "json" };
import en from "./texts/en.json" with { type: "json" };

/** A text by its name. Names in braces stand for what is filled in. */
export type Texts = Readonly<Record<keyof typeof en, string>>;

const TEXTS: Readonly<Record<Language, Texts>> = { en, de };

/** What the task's maker wrote in a language, of which any part may be missing; docs/how-to/page.md explains each. */
export interface Wording {
  readonly title?: string;
  readonly purpose?: string;
  readonly contact?: string;
  readonly group?: string;
  readonly group_help?: string;
  readonly groups?: Readonly<Record<string, string>>;
  readonly label?: string;
  readonly label_help?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly prediction?: string;
  readonly prediction_help?: string;
  readonly score?: string;
  readonly score_help?: string;
  readonly value?: string;
  readonly value_help?: string;
}

export type Wordings = Readonly<Partial<Record<Language, Wording>>>;

/** Return the languages that the page has, with their own names. */
export function languages(): readonly { readonly code: Language; readonly name: string }[] {
  return LANGUAGES.map((code) => ({ code, name: TEXTS[code].name }));
}

export function textsIn(language: Language): Texts {
  return TEXTS[language];
}
