/** Why rows of a table are left out, in words. */

import { inWords, type Language } from "./sentences.js";
import type { LeftOut } from "./table.js";
import type { Task } from "./task.js";
import { said, type TextKey } from "./texts.js";

/** Return why rows are left out. `cells` is how many cells the table's header has. */
export function reasonOf(left: LeftOut, task: Task, cells: number, language: Language): string {
  const detail = task.domain.detail;
  const range = detail.kind === "value" ? { low: detail.grid.low, high: detail.grid.high } : {};
  const { column, value, meant } = left;
  const keys: Readonly<Record<LeftOut["fault"], TextKey>> = {
    cells: "leftCells",
    empty: "leftEmpty",
    undeclared: meant === "" ? "leftUndeclared" : "leftAlike",
    score: "leftScore",
    value: "leftValue",
    "second group": "leftGroup",
    "too many": "leftMany",
  };
  const values = { column, value, meant, ...range, cells, most: task.domain.maxCount };
  return inWords(said(keys[left.fault], values), language);
}
