/** The form in which a person answers. */

import { scoresOf } from "../src/domain.js";
import type { ClientRecord, Task } from "../src/index.js";
import { fill } from "../src/sentences.js";
import { element, paragraph, type Child } from "./dom.js";
import type { Texts, Wording } from "./texts.js";

/** What a person has typed or chosen so far; empty texts stand for nothing. */
export interface Answers {
  group: string;
  label: string;
  prediction: string;
  scores: string[];
  value: string;
}

export function noAnswers(): Answers {
  return { group: "", label: "", prediction: "", scores: [], value: "" };
}

/** What is wrong with an answer: a sentence, and the name of the field. */
export interface AnswerFault {
  readonly field: string;
  readonly sentence: string;
}

const NUMBER = /^\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i;

/** A person's form for a task, in the words of its maker and, where these are missing, the page's own. */
export class AnswerForm {
  constructor(
    private readonly task: Task,
    private readonly wording: Wording,
    private readonly texts: Texts,
    private readonly answers: Answers,
  ) {}

  groupName(name: string): string {
    return this.wording.groups?.[name] ?? name;
  }

  labelName(name: string): string {
    return this.wording.labels?.[name] ?? name;
  }

  /** Return the questions with fields, which write into the answers. */
  fields(): readonly Child[] {
    const { groups, labels, detail } = this.task.domain;
    const { wording, answers } = this;
    const asked: Child[] = [
      this.choice("group", this.question("group"), wording.group_help, groups, (name) => this.groupName(name)),
    ];
    if (labels.length > 0) {
      asked.push(this.choice("label", this.question("label"), wording.label_help, labels, (name) => this.labelName(name)));
    }
    if (detail.kind === "prediction") {
      const question = this.question("prediction");
      asked.push(this.choice("prediction", question, wording.prediction_help, labels, (name) => this.labelName(name)));
    }
    if (detail.kind === "score") {
      for (const k of this.scoreNumbers()) {
        const help = wording.score_help ?? this.texts.scoreHelp;
        asked.push(
          this.number(`score-${k}`, this.scoreQuestion(k), help, answers.scores[k] ?? "", (text) => {
            answers.scores[k] = text;
          }),
        );
      }
    }
    if (detail.kind === "value") {
      const help = wording.value_help ?? fill(this.texts.valueHelp, { low: detail.grid.low, high: detail.grid.high });
      asked.push(
        this.number("value", this.question("value"), help, answers.value, (text) => {
          answers.value = text;
        }),
      );
    }
    return asked;
  }

  /** Return what is wrong with the first answer that cannot be sent, or null. */
  fault(): AnswerFault | null {
    const { labels, detail } = this.task.domain;
    const { answers } = this;
    const chosen: [keyof Answers & ("group" | "label" | "prediction"), boolean][] = [
      ["group", true],
      ["label", labels.length > 0],
      ["prediction", detail.kind === "prediction"],
    ];
    for (const [field, isAsked] of chosen) {
      if (isAsked && answers[field] === "") {
        return { field, sentence: fill(this.texts.choose, { question: this.question(field) }) };
      }
    }
    if (detail.kind === "score") {
      const wrong = this.scoreNumbers().find((k) => !isScore(answers.scores[k] ?? ""));
      if (wrong !== undefined) {
        return this.badNumber(`score-${wrong}`, this.scoreQuestion(wrong), 0, 1);
      }
    }
    if (detail.kind === "value" && !isWithin(answers.value, detail.grid.low, detail.grid.high)) {
      return this.badNumber("value", this.question("value"), detail.grid.low, detail.grid.high);
    }
    return null;
  }

  /** Return the answers as a record. */
  record(): ClientRecord {
    const { labels, detail } = this.task.domain;
    const { answers } = this;
    return {
      group: answers.group,
      ...(labels.length > 0 && { label: answers.label }),
      ...(detail.kind === "prediction" && { prediction: answers.prediction }),
      ...(detail.kind === "score" && { scores: this.scoreNumbers().map((k) => Number(answers.scores[k])) }),
      ...(detail.kind === "value" && { value: answers.value.trim() }),
    };
  }

  /** Return each question with the answer of a record, in words. */
  inWords(record: ClientRecord): readonly (readonly [string, string])[] {
    const said: [string, string][] = [[this.question("group"), this.groupName(record.group)]];
    if (record.label !== undefined) {
      said.push([this.question("label"), this.labelName(record.label)]);
    }
    if (record.prediction !== undefined) {
      said.push([this.question("prediction"), this.labelName(record.prediction)]);
    }
    record.scores?.forEach((score, k) => said.push([this.scoreQuestion(k), String(score)]));
    if (record.value !== undefined) {
      said.push([this.question("value"), String(record.value)]);
    }
    return said;
  }

  private question(field: "group" | "label" | "prediction" | "value"): string {
    return this.wording[field] ?? this.texts[field];
  }

  private scoreQuestion(k: number): string {
    const label = this.task.domain.labels[k] ?? "";
    if (scoresOf(this.task.domain) === 1) {
      return this.wording.score ?? this.texts.score;
    }
    return fill(this.wording.score ?? this.texts.scoreOf, { label: this.labelName(label) });
  }

  private scoreNumbers(): number[] {
    return Array.from({ length: scoresOf(this.task.domain) }, (_, k) => k);
  }

  private badNumber(field: string, question: string, low: number, high: number): AnswerFault {
    return { field, sentence: fill(this.texts.badNumber, { question, low, high }) };
  }

  private choice(
    field: "group" | "label" | "prediction",
    question: string,
    help: string | undefined,
    names: readonly string[],
    shown: (name: string) => string,
  ): HTMLElement {
    const options = names.map((name, i) => {
      const input = element("input", { type: "radio", name: field, id: `${field}-${i}`, value: name, autocomplete: "off" });
      input.checked = this.answers[field] === name;
      input.addEventListener("change", () => {
        this.answers[field] = name;
      });
      return element("div", { class: "option" }, input, element("label", { for: input.id }, shown(name)));
    });
    const described = help === undefined ? [] : [element("p", { class: "help", id: `${field}-help` }, help)];
    const isAsked = { role: "radiogroup", "aria-required": "true" }; // a group of no role cannot be invalid
    const attributes = { ...isAsked, id: field, ...(help !== undefined && { "aria-describedby": `${field}-help` }) };
    return element("fieldset", attributes, element("legend", {}, question), ...described, ...options);
  }

  private number(
    field: string,
    question: string,
    help: string,
    given: string,
    changed: (text: string) => void,
  ): HTMLElement {
    const input = element("input", {
      type: "text",
      inputmode: "decimal",
      id: field,
      autocomplete: "off",
      "aria-describedby": `${field}-help`,
    });
    input.value = given;
    input.addEventListener("input", () => changed(input.value));
    const described = paragraph(help);
    described.id = `${field}-help`;
    described.className = "help";
    return element("div", { class: "field" }, element("label", { for: field }, question), described, input);
  }
}

function isScore(text: string): boolean {
  return !text.includes("/") && isWithin(text, 0, 1);
}

/** Return whether a text is a number, or a fraction of two, within a range. */
function isWithin(text: string, low: number, high: number): boolean {
  const [top = "", ...rest] = text.split("/");
  const bottom = rest.length > 0 ? rest.join("/") : "1";
  const value = NUMBER.test(top) && NUMBER.test(bottom) ? Number(top) / Number(bottom) : Number.NaN;
  return value >= low && value <= high;
}
