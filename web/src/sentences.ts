/** Sentences in several languages: a text by its key, and what is filled in. */

export type Language = "en" | "de";

export const LANGUAGES: readonly Language[] = ["en", "de"];

/** What is filled in, by the names that texts have in braces; a sentence is filled in by its own words. */
export type Values = Readonly<Record<string, string | number | bigint | Sentence>>;

/** A sentence, or a part of one, that every language has. */
export interface Sentence {
  readonly key: string;
  readonly values: Values;
  readonly texts: Readonly<Record<Language, string>>;
}

/** Return a sentence in the words of a language. */
export function inWords(sentence: Sentence, language: Language): string {
  const written = Object.entries(sentence.values).map(([name, value]): [string, string] => [
    name,
    typeof value === "object" ? inWords(value, language) : String(value),
  ]);
  return fill(sentence.texts[language], Object.fromEntries(written));
}

/** Return a text with values in the places of their names. A name without a value stays, so that it is seen. */
export function fill(text: string, values: Readonly<Record<string, string | number | bigint>>): string {
  return text.replace(/\{(\w+)\}/g, (place, name: string) => String(values[name] ?? place));
}

/** Return the first of a reader's languages that there is, by codes such as de-AT or de_DE.UTF-8, or English. */
export function languageFor(wanted: readonly string[]): Language {
  const codes = wanted.map((name) => name.split(/[-_.]/)[0] ?? "");
  return codes.map((code) => LANGUAGES.find((language) => language === code)).find((known) => known !== undefined) ?? "en";
}

/** Texts by their keys, the same ones in each language. */
export class Wordbook<Key extends string> {
  constructor(readonly texts: Readonly<Record<Language, Readonly<Record<Key, string>>>>) {}

  /** Return a sentence. */
  sentence(key: Key, values: Values = {}): Sentence {
    return { key, values, texts: { en: this.texts.en[key], de: this.texts.de[key] } };
  }
}
