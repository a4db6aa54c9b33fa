/** What a client allows by the options of `share`: less than its task does, for its own uploads. */

import { OptionError, type Policy, type PrivacyUnit, type ReleaseName, type Task } from "../src/index.js";
import { exactNumber, fractionText, type Fraction } from "./numbers.js";
import { either, said } from "./texts.js";

/** The texts of the options; null for one that is not given. */
export interface SaidOfRuns {
  readonly epsilon: string | null;
  readonly delta: string | null;
  readonly forTasks: string | null;
  readonly privacyUnit: string | null;
}

const MOST_EPSILON = 20n;
const USUAL_DELTA: Fraction = { top: 1n, bottom: 2n ** 30n };
const UNITS: readonly PrivacyUnit[] = ["record", "client"];

/**
 * Return a client's own policy; null if it allows all that its task allows.
 *
 * Raises OptionError for a text that is none of its option's, and for other options without --epsilon.
 */
export function boundsOf(runs: SaidOfRuns, task: Task): Policy | null {
  const delta = runs.delta === null ? USUAL_DELTA : deltaOf(runs.delta);
  const unit = runs.privacyUnit === null ? "record" : choiceOf("--privacy-unit", runs.privacyUnit, UNITS);
  const tasks = runs.forTasks === null ? task.policy.tasks : releasesOf(runs.forTasks, task);
  if (runs.epsilon === null) {
    const others = { "--delta": runs.delta, "--for-tasks": runs.forTasks, "--privacy-unit": runs.privacyUnit };
    const lonely = Object.entries(others).find(([, text]) => text !== null);
    if (lonely !== undefined) {
      throw new OptionError(said("needsEpsilon", { option: lonely[0] }));
    }
    return null;
  }
  return { tasks, epsilon: fractionText(epsilonOf(runs.epsilon)), delta: fractionText(delta), unit };
}

function epsilonOf(text: string): Fraction {
  const value = exactNumber(text);
  if (value === null || value.top <= 0n || value.top > MOST_EPSILON * value.bottom) {
    throw new OptionError(said("epsilonRange", { most: MOST_EPSILON, text }));
  }
  return value;
}

function deltaOf(text: string): Fraction {
  const value = exactNumber(text);
  if (value === null || value.top <= 0n || value.top >= value.bottom) {
    throw new OptionError(said("deltaRange", { text }));
  }
  return value;
}

function releasesOf(text: string, task: Task): readonly ReleaseName[] {
  return text.split(",").map((name) => choiceOf("--for-tasks", name.trim(), task.policy.tasks));
}

/** Return the choice that a text is, or raise OptionError. */
function choiceOf<Name extends string>(option: string, text: string, choices: readonly Name[]): Name {
  const chosen = choices.find((name) => name === text);
  if (chosen === undefined) {
    throw new OptionError(said("notChosen", { option, choices: either(choices), text }));
  }
  return chosen;
}
