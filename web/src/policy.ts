/** What a client, or all of a task's clients, allow. */

import { ascii, type Bytes } from "./bytes.js";
import { OptionError } from "./errors.js";
import { Fields, notATask } from "./fields.js";
import type { JsonValue } from "./json.js";
import { BOUNDS_BYTES } from "./layout.js";
import { said, type TextKey } from "./texts.js";

/** What a run reveals, by the name of its release. */
export const RELEASES = {
  weights: "revealsWeights",
  confusion: "revealsConfusion",
  thresholds: "revealsThresholds",
  gap: "revealsGap",
  count: "revealsCount",
  cap: "revealsCap",
} as const satisfies Readonly<Record<string, TextKey>>;

export type ReleaseName = keyof typeof RELEASES;

export type PrivacyUnit = "record" | "client";

/** The runs that may use an upload; epsilon and delta are exact, `3` or `3/2`. */
export interface Policy {
  readonly tasks: readonly ReleaseName[];
  readonly epsilon: string;
  readonly delta: string;
  readonly unit: PrivacyUnit;
}

const NUMBER = /^[0-9]{1,200}(\/[1-9][0-9]{0,199})?$/;
const NUMBER_OF_ANY_LENGTH = /^[0-9]+(\/[1-9][0-9]*)?$/;

export function isRelease(name: string): name is ReleaseName {
  return Object.hasOwn(RELEASES, name);
}

/** Return a task's policy, or raise TaskError. */
export function policyOf(value: JsonValue): Policy {
  const fields = Fields.of(value, "placePolicy", ["delta", "epsilon", "tasks", "unit"]);
  const tasks = fields.texts("tasks");
  const epsilon = fields.text("epsilon");
  const delta = fields.text("delta");
  const unit = fields.text("unit");
  const releases = tasks.filter(isRelease);
  if (tasks.length === 0 || releases.length < tasks.length) {
    throw notATask("policyReleases");
  }
  if (!NUMBER.test(epsilon) || !NUMBER.test(delta)) {
    throw notATask("policyNumbers");
  }
  if (unit !== "record" && unit !== "client") {
    throw notATask("policyUnit");
  }
  return { tasks: releases, epsilon, delta, unit };
}

/**
 * Return a client's own bounds as an envelope has them, `null` if there are none.
 *
 * Raises OptionError for bounds that are no policy, that name a release which the task does not allow, or that take
 * more than 192 bytes.
 */
export function boundsOf(own: Policy | null, allowed: Policy): Bytes {
  const text = own === null ? "null" : statedText(own, allowed);
  if (text.length > BOUNDS_BYTES) {
    throw new OptionError(said("boundsLength"));
  }
  return ascii(text.padEnd(BOUNDS_BYTES));
}

function statedText(own: Policy, allowed: Policy): string {
  const areAllowed = own.tasks.length > 0 && own.tasks.every((task) => allowed.tasks.includes(task));
  const isUnit = own.unit === "record" || own.unit === "client";
  const areNumbers = [own.epsilon, own.delta].every((number) => NUMBER_OF_ANY_LENGTH.test(number));
  if (!areAllowed || !isUnit || !areNumbers) {
    throw new OptionError(said("boundsForm"));
  }
  return JSON.stringify({ delta: own.delta, epsilon: own.epsilon, tasks: own.tasks, unit: own.unit });
}
