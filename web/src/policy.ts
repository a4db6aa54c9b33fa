/** What a client, or all of a task's clients, allow. */

import { ascii, type Bytes } from "./bytes.js";
import { OptionError } from "./errors.js";
import { Fields, notATask } from "./fields.js";
import type { JsonValue } from "./json.js";
import { BOUNDS_BYTES } from "./layout.js";

/** What a run reveals, by the name of its release. */
export const RELEASES = {
  weights: "noisy counts of records per group and label",
  confusion: "noisy counts of records per group, label and predicted label",
  thresholds: "noisy counts of records per group, label and range of scores",
  gap: "noisy sums, per group, of clients' distances from the lower and from the upper end of the range",
  count: "the noisy logarithm of the number of records per group and label",
  cap: "which cap was chosen",
} as const;

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

export function isRelease(name: string): name is ReleaseName {
  return Object.hasOwn(RELEASES, name);
}

/** Return a task's policy, or raise TaskError. */
export function policyOf(value: JsonValue): Policy {
  const fields = Fields.of(value, "its policy", ["delta", "epsilon", "tasks", "unit"]);
  const tasks = fields.texts("tasks");
  const epsilon = fields.text("epsilon");
  const delta = fields.text("delta");
  const unit = fields.text("unit");
  const releases = tasks.filter(isRelease);
  if (tasks.length === 0 || releases.length < tasks.length) {
    throw notATask("its policy allows no release, or one that this version does not know");
  }
  if (!NUMBER.test(epsilon) || !NUMBER.test(delta)) {
    throw notATask("epsilon and delta of its policy are not exact numbers, as '3/2'");
  }
  if (unit !== "record" && unit !== "client") {
    throw notATask("its policy protects neither records nor clients");
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
    throw new OptionError("These bounds take too much room in an envelope; state epsilon and delta by fewer digits.");
  }
  return ascii(text.padEnd(BOUNDS_BYTES));
}

function statedText(own: Policy, allowed: Policy): string {
  const areAllowed = own.tasks.length > 0 && own.tasks.every((task) => allowed.tasks.includes(task));
  const isUnit = own.unit === "record" || own.unit === "client";
  if (!areAllowed || !isUnit || !NUMBER.test(own.epsilon) || !NUMBER.test(own.delta)) {
    throw new OptionError(
      "Bounds name some of the task's releases, a unit, and epsilon and delta as exact numbers, such as '3/2'.",
    );
  }
  return JSON.stringify({ delta: own.delta, epsilon: own.epsilon, tasks: own.tasks, unit: own.unit });
}
