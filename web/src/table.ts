/** Tables of an organization's records: texts of CSV files, or pasted from a spreadsheet, and which rows are records. */

import { randomBelow } from "./bytes.js";
import type { ClientRecord } from "./counting.js";
import { scoresOf, type ValueGrid } from "./domain.js";
import { RecordsError } from "./errors.js";
import type { Task } from "./task.js";
import { said, type TextKey } from "./texts.js";

/** A row below the header, which is row 1. */
export interface TableRow {
  readonly number: number;
  readonly cells: readonly string[];
}

export interface Table {
  readonly header: readonly string[];
  readonly rows: readonly TableRow[];
}

/** The names of the columns that hold a record; which of the optional ones are there follows from the task. */
export interface Columns {
  readonly group: string;
  readonly label?: string;
  readonly scores?: readonly string[]; // one, or one per label in their sorted order if there are more than two
  readonly prediction?: string;
  readonly value?: string;
}

/**
 * Why rows are no records: too many or too few cells, an empty cell, a name that the task does not declare, a score
 * that is not a number from 0 to 1, a value outside of the range, another group than most (in tasks for clients of one
 * group), or more records than a client may have, of which as many are drawn at random.
 */
export type RowFault = "cells" | "empty" | "undeclared" | "score" | "value" | "second group" | "too many";

/** Rows that are left out, and why. */
export interface LeftOut {
  readonly fault: RowFault;
  readonly column: string; // by the table's name, or "" where no column is at fault
  readonly row: number; // the first of these rows; 0 where they were drawn at random
  readonly value: string; // of that row
  readonly meant: string; // a declared name that looks like the value, or ""
  readonly rows: number; // how many there are
}

export interface TableRecords {
  readonly records: readonly ClientRecord[];
  readonly leftOut: readonly LeftOut[];
}

export interface ClientsRecords {
  readonly names: readonly string[]; // of the clients
  readonly clients: readonly (readonly ClientRecord[])[];
  readonly leftOut: readonly LeftOut[];
}

const MISSING = ["", "nan"];
const SCORE = /^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$/;
const NUMBER = /^\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i;
const TRUTH: Readonly<Record<string, string>> = { true: "1", false: "0" };
const INVISIBLE =
  /[\p{Cf}\p{Cc}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\u{e0000}-\u{e0fff}]/gu;

/**
 * Return the table in a text, or in a file's bytes, whose cells are separated by commas, semicolons or tabs, whichever its header has.
 *
 * A cell may be in quotation marks, and holds separators and line ends then. Empty lines are no rows.
 *
 * Raises RecordsError for a text without a header or without a row, for a quotation mark that is never closed, and for
 * bytes that are no UTF-8.
 */
export function readTable(given: string | Uint8Array): Table {
  const content = (typeof given === "string" ? given : textIn(given)).replace(/^\ufeff/, "");
  const lines = linesOf(content, separatorOf(content));
  const [header, ...rows] = lines;
  if (header === undefined) {
    throw new RecordsError(said("tableEmpty"));
  }
  if (rows.length === 0) {
    throw new RecordsError(said("tableRows"));
  }
  return { header, rows: rows.map((cells, i) => ({ number: i + 2, cells })) };
}

/**
 * Return the records in a table, and which rows are left out, each for its first fault.
 *
 * The same rows are left out as by `share`, for the same reasons. The records are of one client.
 *
 * Raises RecordsError for a column that is not there, or is there twice, and for a task of a record per client.
 */
export function recordsOf(task: Task, table: Table, columns: Columns): TableRecords {
  const reader = new RowReader(task, table, columns);
  const faults = new Map<string, LeftOut>();
  let records: { readonly row: TableRow; readonly record: ClientRecord }[] = [];
  const leave = (fault: Fault, row: TableRow): void => {
    const key = `${fault.fault} ${fault.column}`;
    const earlier = faults.get(key);
    faults.set(key, earlier ? { ...earlier, rows: earlier.rows + 1 } : { ...fault, row: row.number, rows: 1 });
  };
  for (const row of table.rows) {
    const read = reader.read(row);
    if ("fault" in read) {
      leave(read, row);
    } else {
      records.push({ row, record: read });
    }
  }
  const most = task.domain.maxCount;
  if (BigInt(records.length) > most) {
    const kept = drawn(records, Number(most));
    const rows = records.length - kept.length;
    faults.set("too many", { fault: "too many", column: "", row: 0, value: "", meant: "", rows });
    records = kept;
  }
  if (task.form === "product") {
    const group = largestGroup(task, records.map(({ record }) => record));
    for (const { row, record } of records) {
      if (record.group !== group) {
        leave({ fault: "second group", column: columns.group, value: record.group, meant: "" }, row);
      }
    }
    records = records.filter(({ record }) => record.group === group);
  }
  return { records: records.map(({ record }) => record), leftOut: [...faults.values()] };
}

/**
 * Return the records of each client that a column names, in the order of the clients' first rows, and which rows are
 * left out.
 *
 * A client whose rows are all left out is one without records, as for `share`. Raises RecordsError as `recordsOf`.
 */
export function recordsOfClients(task: Task, table: Table, columns: Columns, client: string): ClientsRecords {
  const place = placeIn(table.header, "whatClient", client);
  const used = [columns.group, columns.label, columns.prediction, columns.value, ...(columns.scores ?? [])];
  if (used.includes(client)) {
    throw new RecordsError(said("tableMeanings"));
  }
  const unnamed: TableRow[] = []; // of no client, as a cell is missing or empty
  const byClient = new Map<string, TableRow[]>();
  for (const row of table.rows) {
    const name = row.cells.length === table.header.length ? (row.cells[place] ?? "") : "";
    const rows = isEmpty(name) ? unnamed : (byClient.get(name) ?? []);
    rows.push(row);
    if (rows !== unnamed) {
      byClient.set(name, rows);
    }
  }
  const faults = unnamed.map((row): LeftOut => {
    const isWhole = row.cells.length === table.header.length;
    const why = { fault: isWhole ? "empty" : "cells", column: isWhole ? client : "", meant: "" } as const;
    return { ...why, value: isWhole ? (row.cells[place] ?? "") : String(row.cells.length), row: row.number, rows: 1 };
  });
  const read = [...byClient.values()].map((rows) => recordsOf(task, { header: table.header, rows }, columns));
  const leftOut = new Map<string, LeftOut>();
  for (const left of [...faults, ...read.flatMap((one) => one.leftOut)]) {
    const key = `${left.fault} ${left.column}`;
    const other = leftOut.get(key);
    const first = other !== undefined && other.row <= left.row ? other : left;
    leftOut.set(key, { ...first, rows: left.rows + (other?.rows ?? 0) });
  }
  return { names: [...byClient.keys()], clients: read.map(({ records }) => records), leftOut: [...leftOut.values()] };
}

/** Return a declared name from which only blanks, case, Unicode form or a number's form set a text apart, or "". */
export function alike(text: string, declared: readonly string[]): string {
  return declared.find((name) => folded(name) === folded(text)) ?? "";
}

/** What a column holds. */
type What = TextKey & `what${string}`;

type Fault = Pick<LeftOut, "fault" | "column" | "value" | "meant">;

/** Reads rows by the columns' names. */
class RowReader {
  private readonly group: number;
  private readonly label: number | null;
  private readonly prediction: number | null;
  private readonly value: number | null;
  private readonly scores: readonly number[];

  constructor(
    private readonly task: Task,
    private readonly table: Table,
    columns: Columns,
  ) {
    const kind = task.domain.detail.kind;
    this.group = this.placeOf("whatGroup", columns.group);
    this.label = kind === "value" ? null : this.placeOf("whatLabel", columns.label);
    this.prediction = kind === "prediction" ? this.placeOf("whatPrediction", columns.prediction) : null;
    this.value = kind === "value" ? this.placeOf("whatValue", columns.value) : null;
    const scores = kind === "score" ? scoresOf(task.domain) : 0;
    this.scores = Array.from({ length: scores }, (_, k) => this.placeOf("whatScore", columns.scores?.[k]));
    if (new Set(this.places).size < this.places.length) {
      throw new RecordsError(said("tableMeanings"));
    }
  }

  private get places(): readonly number[] {
    return [this.group, this.label, this.prediction, this.value, ...this.scores].filter((place) => place !== null);
  }

  /** Return a row's record, or its first fault. */
  read(row: TableRow): ClientRecord | Fault {
    const { groups, labels, detail } = this.task.domain;
    if (row.cells.length !== this.table.header.length) {
      return { fault: "cells", column: "", value: String(row.cells.length), meant: "" };
    }
    const empty = this.places.find((place) => isEmpty(this.cell(row, place)));
    if (empty !== undefined) {
      return this.faultAt("empty", empty, row);
    }
    const named: [number | null, readonly string[]][] = [
      [this.group, groups],
      [this.label, labels],
      [this.prediction, labels],
    ];
    for (const [place, names] of named) {
      if (place !== null && !names.includes(this.cell(row, place))) {
        return { ...this.faultAt("undeclared", place, row), meant: alike(this.cell(row, place), names) };
      }
    }
    if (this.value !== null && detail.kind === "value" && numberIn(detail.grid, this.cell(row, this.value)) === null) {
      return this.faultAt("value", this.value, row);
    }
    const wrong = this.scores.find((place) => !isScore(this.cell(row, place)));
    if (wrong !== undefined) {
      return this.faultAt("score", wrong, row);
    }
    return {
      group: this.cell(row, this.group),
      ...(this.label !== null && { label: this.cell(row, this.label) }),
      ...(this.prediction !== null && { prediction: this.cell(row, this.prediction) }),
      ...(this.value !== null && { value: asNumberText(this.cell(row, this.value)) }),
      ...(this.scores.length > 0 && { scores: this.scores.map((place) => Number(this.cell(row, place).trim())) }),
    };
  }

  private cell(row: TableRow, place: number): string {
    return row.cells[place] ?? "";
  }

  private faultAt(fault: RowFault, place: number, row: TableRow): Fault {
    return { fault, column: this.table.header[place] ?? "", value: this.cell(row, place), meant: "" };
  }

  private placeOf(what: What, name: string | undefined): number {
    return placeIn(this.table.header, what, name);
  }
}

/** Return a column's place in a header, or raise RecordsError. */
function placeIn(header: readonly string[], what: What, name: string | undefined): number {
  const place = name === undefined ? -1 : header.indexOf(name);
  if (place < 0) {
    const found = header.join(", ");
    throw new RecordsError(said("tableColumn", { column: name ?? "", what: said(what), found }));
  }
  if (header.indexOf(header[place] ?? "", place + 1) >= 0) {
    throw new RecordsError(said("tableTwice", { column: name ?? "" }));
  }
  return place;
}

function isEmpty(text: string): boolean {
  return MISSING.includes(text.trim().toLowerCase());
}

function isScore(text: string): boolean {
  const score = SCORE.test(text.trim()) ? Number(text.trim()) : Number.NaN;
  return score >= 0 && score <= 1;
}

/** Return what a table's text of a value stands for: true is 1, and false is 0. */
function asNumberText(text: string): string {
  return TRUTH[text.toLowerCase()] ?? text;
}

/** Return the number that a number or a fraction writes, or null if it is none within a range. */
function numberIn(grid: ValueGrid, text: string): number | null {
  const [top = "", ...rest] = asNumberText(text).split("/");
  const bottom = rest.length > 0 ? rest.join("/") : "1";
  const value = NUMBER.test(top) && NUMBER.test(bottom) ? Number(top) / Number(bottom) : Number.NaN;
  return value >= grid.low && value <= grid.high ? value : null;
}

/** Return a uniform choice of so many things, in their order. */
export function drawn<T>(things: readonly T[], most: number): T[] {
  const places = things.map((_, i) => i);
  for (let i = 0; i < most; i += 1) {
    const other = i + randomBelow(places.length - i);
    const place = places[i] ?? 0;
    places[i] = places[other] ?? 0;
    places[other] = place;
  }
  const kept = new Set(places.slice(0, most));
  return things.filter((_, i) => kept.has(i));
}

/** Return the group of most records, the first if several have as many. */
function largestGroup(task: Task, records: readonly ClientRecord[]): string {
  let largest = "";
  let most = -1;
  for (const group of task.domain.groups) {
    const count = records.filter((record) => record.group === group).length;
    if (count > most) {
      largest = group;
      most = count;
    }
  }
  return largest;
}

/** Return the number that a name writes, else its text without what a reader can't see or tell apart. */
function folded(name: string): string {
  const number = /^\s*([-+]?)0*(\d*)(?:\.(\d*))?(?:e([-+]?\d{1,6}))?\s*$/i.exec(name);
  const [, sign = "", whole = "", decimals = "", exponent = "0"] = number ?? [];
  if (number !== null && /\d/.test(name.replace(/e.*/i, ""))) {
    const digits = `${whole}${decimals}`.replace(/^0+/, "");
    const ended = digits.replace(/0+$/, "");
    const power = Number(exponent) - decimals.length + digits.length - ended.length;
    return ended === "" ? "0 e0" : `${sign === "-" ? "-" : ""}${ended} e${power}`;
  }
  const visible = Array.from(name, (sign_) => (/\s/.test(sign_) ? sign_ : sign_.replace(INVISIBLE, ""))).join("");
  const words = visible.normalize("NFKC").split(/\s+/).filter((word) => word !== "");
  return words.join(" ").toUpperCase().toLowerCase();
}

function textIn(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new RecordsError(said("tableText"));
  }
}

/** Return the sign that separates cells: the first of tab, semicolon and comma that the header has outside of quotes. */
function separatorOf(content: string): string {
  const header = (content.split(/\r?\n|\r/).find((line) => line.trim() !== "") ?? "").replace(/"[^"]*"/g, "");
  return ["\t", ";"].find((sign) => header.includes(sign)) ?? ",";
}

/** Return the cells of each line that is not empty. */
function linesOf(content: string, separator: string): string[][] {
  const lines: string[][] = [];
  let cells: string[] = [];
  let cell = "";
  let isQuoted = false; // within quotation marks
  let wasQuoted = false; // the cell has had some
  const endCell = (): void => {
    cells.push(cell);
    cell = "";
    wasQuoted = false;
  };
  const endLine = (): void => {
    const isBlank = cells.length === 0 && cell.trim() === "" && !wasQuoted;
    endCell();
    if (!isBlank) {
      lines.push(cells);
    }
    cells = [];
  };
  for (let i = 0; i < content.length; i += 1) {
    const sign = content[i] ?? "";
    if (isQuoted) {
      if (sign !== '"') {
        cell += sign;
      } else if (content[i + 1] === '"') {
        cell += '"';
        i += 1;
      } else {
        isQuoted = false;
      }
    } else if (sign === '"' && cell === "" && !wasQuoted) {
      isQuoted = true;
      wasQuoted = true;
    } else if (sign === separator) {
      endCell();
    } else if (sign === "\n" || sign === "\r") {
      if (sign === "\r" && content[i + 1] === "\n") {
        i += 1;
      }
      endLine();
    } else {
      cell += sign;
    }
  }
  if (isQuoted) {
    throw new RecordsError(said("tableQuote"));
  }
  endLine();
  return lines;
}
