/** Reads the fields of JSON objects, each of an expected type, with no key left over. */

import { TaskError } from "./errors.js";
import { isList, isObject, JsonNumber, shown, type JsonValue } from "./json.js";

/** The fields of one object of a task's file. Each method raises TaskError for what it does not expect. */
export class Fields {
  private constructor(
    private readonly values: ReadonlyMap<string, JsonValue>,
    private readonly place: string,
  ) {}

  /** Return the fields of an object that has no key but `known` ones. */
  static of(value: JsonValue, place: string, known: readonly string[]): Fields {
    if (!isObject(value)) {
      throw notATask(`${place} is no object`);
    }
    for (const name of value.keys()) {
      if (!known.includes(name)) {
        throw notATask(`${place} has an unknown key ${shown(name)}`);
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
      throw notATask(`${this.place} has no key '${name}'`);
    }
    return value;
  }

  text(name: string): string {
    const value = this.value(name);
    if (typeof value !== "string") {
      throw this.expected(name, "a text");
    }
    return value;
  }

  truth(name: string): boolean {
    const value = this.value(name);
    if (typeof value !== "boolean") {
      throw this.expected(name, "true or false");
    }
    return value;
  }

  whole(name: string): bigint {
    const value = this.value(name);
    if (!(value instanceof JsonNumber) || !value.isWhole) {
      throw this.expected(name, "a whole number");
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
      throw this.expected(name, "a list");
    }
    return value;
  }

  texts(name: string): readonly string[] {
    return this.list(name).map((value) => {
      if (typeof value !== "string") {
        throw this.expected(name, "a list of texts");
      }
      return value;
    });
  }

  numbers(name: string): readonly number[] {
    return this.list(name).map((value) => this.asNumber(value, name));
  }

  private asNumber(value: JsonValue, name: string): number {
    if (!(value instanceof JsonNumber)) {
      throw this.expected(name, "numbers");
    }
    return value.value;
  }

  private expected(name: string, what: string): TaskError {
    return notATask(`'${name}' of ${this.place} is not ${what}`);
  }
}

/** Return the error for a file that is no task, with its fault. */
export function notATask(fault: string): TaskError {
  return new TaskError(
    `This file is not a task of this version: ${fault}; fetch it again, or ask the task's maker for another.`,
  );
}
