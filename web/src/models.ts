/** The security models that a task may name: how many parties compute, and how many of them may collude. */

import type { ArithmeticName } from "./elements.js";

export interface SecurityModel {
  readonly least: number; // parties
  readonly most: number;
  readonly isOdd?: boolean; // whether it takes odd numbers alone
  readonly arithmetic: ArithmeticName; // of shares that are not bits
  readonly isActive: boolean; // whether parties that may be corrupt may also deviate, by the model's design

  /** Return how many of so many parties may collude, and still read nothing. */
  corruptions(parties: number): number;
}

const one = (): number => 1;
const allButOne = (parties: number): number => parties - 1;
const fewerThanHalf = (parties: number): number => Math.floor((parties - 1) / 2);

const MODELS: Readonly<Record<string, SecurityModel>> = {
  "semi2k": { least: 2, most: 16, arithmetic: "ring64", isActive: false, corruptions: allButOne },
  "ring": { least: 3, most: 3, arithmetic: "ring64", isActive: false, corruptions: one },
  "spdz2k": { least: 2, most: 16, arithmetic: "ring64", isActive: true, corruptions: allButOne },
  "sy-rep-ring": { least: 3, most: 3, arithmetic: "ring64", isActive: false, corruptions: one }, // its check has no effect
  "ps-rep-ring": { least: 3, most: 3, arithmetic: "ring64", isActive: true, corruptions: one },
  "rep4-ring": { least: 4, most: 4, arithmetic: "ring64", isActive: true, corruptions: one },
  "shamir": { least: 3, most: 16, arithmetic: "field127", isActive: false, corruptions: fewerThanHalf },
  "malicious-shamir": {
    least: 3,
    most: 15,
    isOdd: true,
    arithmetic: "field127",
    isActive: true,
    corruptions: fewerThanHalf,
  },
  "mpyc": { least: 3, most: 16, arithmetic: "field127", isActive: false, corruptions: fewerThanHalf },
};

/** Return whether so many parties can compute in a model. */
export function takes(model: SecurityModel, parties: number): boolean {
  if (model.isOdd === true && parties % 2 === 0) return false;
  return model.least <= parties && parties <= model.most;
}

/** Return the model of a name, or null. */
export function modelOf(name: string): SecurityModel | null {
  return Object.hasOwn(MODELS, name) ? (MODELS[name] ?? null) : null;
}
