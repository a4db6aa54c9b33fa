/** The form in which an organization gives its table. */

import { scoresOf } from "../src/domain.js";
import {
  inWords,
  readTable,
  reasonOf,
  RecordsError,
  recordsOf,
  type Columns,
  type Language,
  type LeftOut,
  type Sentence,
  type Table,
  type TableRecords,
  type Task,
} from "../src/index.js";
import { fill } from "../src/sentences.js";
import { element, paragraph, table, type Child } from "./dom.js";
import type { Texts, Wording } from "./texts.js";

/** What an organization has given so far. */
export interface GivenTable {
  table: Table | null;
  columns: Map<string, string>; // by what they mean
  fault: Sentence | null; // why the last file or text is no table
  text: string; // what was typed or pasted
}

export function noTable(): GivenTable {
  return { table: null, columns: new Map(), fault: null, text: "" };
}

/** What the records of a table are, or why there are none. */
export type Counted =
  | { readonly kind: "records"; readonly of: TableRecords; readonly rows: number }
  | { readonly kind: "not yet" }
  | { readonly kind: "fault"; readonly sentence: string };

/** A meaning of a column, and what the page says of it. */
interface Meaning {
  readonly name: string;
  readonly question: string;
  readonly term: string;
}

/** An organization's form for a task. */
export class TableForm {
  constructor(
    private readonly task: Task,
    private readonly wording: Wording,
    private readonly texts: Texts,
    private readonly language: Language,
    private readonly given: GivenTable,
    private readonly changed: () => void,
  ) {}

  /** Return the fields for the table. They stay as they are while what follows from the table changes. */
  fields(): readonly Child[] {
    const { texts } = this;
    const file = element("input", { type: "file", id: "table-file", accept: ".csv,.tsv,.txt,text/csv" });
    file.addEventListener("change", () => {
      const chosen = file.files?.[0];
      if (chosen !== undefined) {
        void this.readFile(chosen);
      }
    });
    const pasted = element("textarea", { id: "table-text", rows: "6", autocomplete: "off", spellcheck: "false" });
    pasted.value = this.given.text;
    pasted.addEventListener("input", () => {
      this.given.text = pasted.value;
      this.read(pasted.value);
      this.given.fault = null; // it may be about to be written
      this.changed();
    });
    pasted.addEventListener("change", () => {
      if (this.given.table === null && pasted.value.trim() !== "") {
        this.take(pasted.value);
      }
    });
    return [
      paragraph(texts.tableHelp),
      element("div", { class: "field" }, element("label", { for: file.id }, texts.tableFile), file),
      element("div", { class: "field" }, element("label", { for: pasted.id }, texts.tablePaste), pasted),
    ];
  }

  /** Return why the table is none, or the fields for its columns. */
  columns(): readonly Child[] {
    const { fault, table: read } = this.given;
    if (fault !== null) {
      return [element("p", { role: "alert", class: "fault" }, inWords(fault, this.language))];
    }
    return read === null ? [] : this.columnFields(read);
  }

  /** Return the records, by the columns that were named. */
  counted(): Counted {
    const read = this.given.table;
    const columns = this.chosen();
    if (read === null) {
      return { kind: "not yet" };
    }
    if (columns === null) {
      return { kind: "fault", sentence: this.texts.chooseColumns };
    }
    try {
      const of = recordsOf(this.task, read, columns);
      return { kind: "records", of, rows: read.rows.length };
    } catch (error) {
      if (error instanceof RecordsError) {
        return { kind: "fault", sentence: inWords(error.sentence, this.language) };
      }
      throw error;
    }
  }

  /** Return which rows are left out and why, as a table, or nothing. */
  leftOut(rows: readonly LeftOut[]): readonly Child[] {
    if (rows.length === 0) {
      return [];
    }
    const { texts } = this;
    const header = [texts.leftOutReason, texts.leftOutRows, texts.leftOutFirst];
    const lines = rows.map((left) => [
      this.reason(left),
      String(left.rows),
      left.row > 0 ? fill(texts.rowNumber, { row: left.row }) : "–",
    ]);
    return [table(texts.leftOutHeading, header, lines)];
  }

  /** Return a sentence if the table seems to be of several clients, or nothing. */
  clients(): readonly Child[] {
    const read = this.given.table;
    const place = read?.header.indexOf("client_id") ?? -1;
    const clients = new Set(read?.rows.map((row) => row.cells[place] ?? "")).size;
    if (read === null || place < 0 || clients < 2) {
      return [];
    }
    return [element("p", { class: "notice" }, fill(this.texts.manyClients, { clients }))];
  }

  private reason(left: LeftOut): string {
    return reasonOf(left, this.task, this.given.table?.header.length ?? 0, this.language);
  }

  private async readFile(file: File): Promise<void> {
    this.take(new Uint8Array(await file.arrayBuffer()));
  }

  private take(content: string | Uint8Array): void {
    this.read(content);
    this.changed();
  }

  private read(content: string | Uint8Array): void {
    try {
      const read = readTable(content);
      this.given.table = read;
      this.given.fault = null;
      this.guessColumns(read.header);
    } catch (error) {
      if (!(error instanceof RecordsError)) {
        throw error;
      }
      this.given.table = null;
      this.given.fault = error.sentence;
    }
  }

  /** Name the columns that are called as what they mean; the others are named by hand. */
  private guessColumns(header: readonly string[]): void {
    this.given.columns.clear();
    for (const { name } of this.meanings()) {
      if (header.includes(name)) {
        this.given.columns.set(name, name);
      }
    }
  }

  private columnFields(read: Table): readonly Child[] {
    const fields = this.meanings().map(({ name, question, term }) => {
      const help = element("p", { class: "help", id: `column-${name}-help` }, term);
      const select = element("select", { id: `column-${name}`, "aria-describedby": help.id });
      select.append(element("option", { value: "" }, this.texts.columnChoose));
      for (const column of new Set(read.header)) {
        select.append(element("option", { value: column }, column));
      }
      select.value = this.given.columns.get(name) ?? "";
      select.addEventListener("change", () => {
        this.given.columns.set(name, select.value);
        this.changed();
      });
      return element("div", { class: "field" }, element("label", { for: select.id }, question), help, select);
    });
    return [element("fieldset", {}, element("legend", {}, this.texts.columnsHeading), ...fields)];
  }

  private chosen(): Columns | null {
    const found = new Map<string, string>();
    for (const { name } of this.meanings()) {
      const column = this.given.columns.get(name) ?? "";
      if (column === "") {
        return null;
      }
      found.set(name, column);
    }
    const label = found.get("label");
    const prediction = found.get("prediction");
    const value = found.get("value");
    const scores = [...found].filter(([name]) => name.startsWith("score")).map(([, column]) => column);
    return {
      group: found.get("group") ?? "",
      ...(label !== undefined && { label }),
      ...(prediction !== undefined && { prediction }),
      ...(value !== undefined && { value }),
      ...(scores.length > 0 && { scores }),
    };
  }

  /** Return what columns the table needs, with the names that `share` expects. */
  private meanings(): readonly Meaning[] {
    const { texts, wording } = this;
    const { groups, labels, detail } = this.task.domain;
    const names = labels.join(", ");
    const asked = (question: string | undefined, help: string | undefined, usual: string): string =>
      [question, help ?? usual].filter((text) => text !== undefined).join(" ");
    const group = asked(wording.group, wording.group_help, fill(texts.termGroup, { names: groups.join(", ") }));
    const needed: Meaning[] = [{ name: "group", question: texts.columnGroup, term: group }];
    if (detail.kind === "value") {
      const range = { low: detail.grid.low, high: detail.grid.high };
      const term = asked(wording.value, wording.value_help, fill(texts.termValue, range));
      return [...needed, { name: "value", question: texts.columnValue, term }];
    }
    const label = asked(wording.label, wording.label_help, fill(texts.termLabel, { names }));
    needed.push({ name: "label", question: texts.columnLabel, term: label });
    if (detail.kind === "prediction") {
      const term = asked(wording.prediction, wording.prediction_help, fill(texts.termPrediction, { names }));
      needed.push({ name: "prediction", question: texts.columnPrediction, term });
    }
    if (detail.kind === "score") {
      const term = wording.score_help ?? texts.termScore;
      const isSingle = scoresOf(this.task.domain) === 1;
      for (const scored of isSingle ? [""] : labels) {
        const question = isSingle ? texts.columnScore : fill(texts.columnScoreOf, { label: scored });
        needed.push({ name: isSingle ? "score" : `score_${scored}`, question, term });
      }
    }
    return needed;
  }
}
