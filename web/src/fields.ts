/** Reads the fields of JSON objects, each of an expected type, with no key left over. */

import { TaskError } from "./errors.js";
import { isList, isObject, JsonNumber, shown, type JsonValue } from "./json.js";
import type { Sentence, Values } from "./sentences.js";
import { said, type TextKey } from "./texts.js";

/** Where an object stands in a task's file. */
type Place = TextKey & `place${string}`;

/** What a field was to be. */
type Kind = TextKey & `kind${string}`;

/** The fields of one object of a task's file. Each method raises TaskError for what it does not expect. */
export class Fields {
  private constructor(
    private readonly values: ReadonlyMap<string, JsonValue>,
    private readonly place: Place,
  ) {}

  /** Return the fields of an object that has no key but `known` ones. */
  static of(value: JsonValue, place: Place, known: readonly string[]): Fields {
    if (!isObject(value)) {
      throw notATask("fieldsNone", { place: said(place) });
    }
    for (const name of value.keys()) {
      if (!known.includes(name)) {
        throw notATask("fieldsUnknown", { place: said(place), name: shown(name) });
      }
    }
    return new Fields(value, place);
  }

  has(name: string): boolean {
    return this.values.has(name);
  }

  value(name: string): JsonValue {
    const value = this.values.get(name);
    if (value === undefined) {
      throw notATask("fieldsMissing", { place: said(this.place), name });
    }
    return value;
  }

  text(name: string): string {
    const value = this.value(name);
    if (typeof value !== "string") {
      throw this.expected(name, "kindText");
    }
    return value;
  }

  truth(name: string): boolean {
    const value = this.value(name);
    if (typeof value !== "boolean") {
      throw this.expected(name, "kindTruth");
    }
    return value;
  }

  whole(name: string): bigint {
    const value = this.value(name);
    if (!(value instanceof JsonNumber) || !value.isWhole) {
      throw this.expected(name, "kindWhole");
    }
    return value.exact;
  }

  /** Return a number, whole or not. */
  number(name: string): number {
    return this.asNumber(this.value(name), name);
  }

  list(name: string): readonly JsonValue[] {
    const value = this.value(name);
    if (!isList(value)) {
      throw this.expected(name, "kindList");
    }
    return value;
  }

  texts(name: string): readonly string[] {
    return this.list(name).map((value) => {
      if (typeof value !== "string") {
        throw this.expected(name, "kindTexts");
      }
      return value;
    });
  }

  numbers(name: string): readonly number[] {
    return this.list(name).map((value) => this.asNumber(value, name));
  }

  private asNumber(value: JsonValue, name: string): number {
    if (!(value instanceof JsonNumber)) {
      throw this.expected(name, "kindNumbers");
    }
    return value.value;
  }

  private expected(name: string, kind: Kind): TaskError {
    return notATask("fieldsKind", { place: said(this.place), name, kind: said(kind) });
  }
}

/** Return the error for a file that is no task, with its fault. */
export function notATask(fault: TextKey, values: Values = {}): TaskError {
  return noTaskFor(said(fault, values));
}

/** Return the error for a file that is no task, with its fault as a part of a sentence. */
export function noTaskFor(fault: Sentence): TaskError {
  return new TaskError(said("notATask", { fault }));
}
