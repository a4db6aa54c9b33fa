/** Why rows of a table are left out, in words. */

import type { LeftOut, Task } from "../src/index.js";
import { fill, type Texts } from "./texts.js";

/** Return why rows are left out. `cells` is how many cells the table's header has. */
export function reasonOf(left: LeftOut, task: Task, cells: number, texts: Texts): string {
  const detail = task.domain.detail;
  const range = detail.kind === "value" ? { low: detail.grid.low, high: detail.grid.high } : {};
  const values = { ...left, ...range, cells, most: task.domain.maxCount };
  const reasons: Readonly<Record<LeftOut["fault"], string>> = {
    cells: texts.faultCells,
    empty: texts.faultEmpty,
    undeclared: left.meant === "" ? texts.faultUndeclared : texts.faultAlike,
    score: texts.faultScore,
    value: texts.faultValue,
    "second group": texts.faultGroup,
    "too many": texts.faultMany,
  };
  return fill(reasons[left.fault], values);
}
