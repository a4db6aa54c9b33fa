/** The page's own texts, and the wording of the task's maker. */

import de from "./texts/de.json";
import en from "./texts/en.json";

/** A text by its name. Names in braces stand for what is filled in. */
export type Texts = Readonly<Record<keyof typeof en, string>>;

const LANGUAGES: Readonly<Record<string, Texts>> = { en, de };
const USUAL = "en";

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

export type Wordings = Readonly<Record<string, Wording>>;

/** Return the languages that the page has, with their own names. */
export function languages(): readonly { readonly code: string; readonly name: string }[] {
  return Object.entries(LANGUAGES).map(([code, texts]) => ({ code, name: texts.name }));
}

export function textsIn(language: string): Texts {
  return LANGUAGES[language] ?? en;
}

/** Return the first of a reader's languages that the page has, by codes such as de-AT, or English. */
export function languageFor(wanted: readonly string[]): string {
  const known = wanted.map((code) => code.split("-")[0] ?? "").find((code) => Object.hasOwn(LANGUAGES, code));
  return known ?? USUAL;
}

/** Return a text with values in the places of their names. A name without a value stays, so that it is seen. */
export function fill(text: string, values: Readonly<Record<string, string | number | bigint>>): string {
  return text.replace(/\{(\w+)\}/g, (place, name: string) => String(values[name] ?? place));
}
