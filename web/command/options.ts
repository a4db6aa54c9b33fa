/** The options of the command, and their help. */

import { parseArgs } from "node:util";

import { OptionError } from "../src/index.js";
import type { SaidOfRuns } from "./bounds.js";
import { said, words, type TextKey } from "./texts.js";

const OPTIONS = {
  task: { type: "string", help: "helpTask" },
  records: { type: "string", help: "helpRecords" },
  columns: { type: "string", help: "helpColumns" },
  out: { type: "string", help: "helpOut" },
  to: { type: "string", help: "helpTo" },
  certificate: { type: "string", help: "helpCertificate" },
  check: { type: "boolean", help: "helpCheck" },
  counted: { type: "string", help: "helpCounted" },
  epsilon: { type: "string", help: "helpEpsilon" },
  delta: { type: "string", help: "helpDelta" },
  "for-tasks": { type: "string", help: "helpForTasks" },
  "privacy-unit": { type: "string", help: "helpPrivacyUnit" },
  help: { type: "boolean", help: "helpHelp" },
} as const satisfies Readonly<Record<string, { readonly type: "string" | "boolean"; readonly help: TextKey }>>;

const MARGIN = 19; // before an option's help
const WIDTH = 90;

/** The options as they were given. */
type Given = {
  readonly [Name in keyof typeof OPTIONS]?: (typeof OPTIONS)[Name]["type"] extends "string" ? string : boolean;
};

export interface Options {
  readonly task: string;
  readonly records: string | null;
  readonly columns: string;
  readonly out: string | null;
  readonly to: string | null;
  readonly certificate: string | null;
  readonly counted: string | null;
  readonly runs: SaidOfRuns;
  readonly check: boolean;
}

/** Return the options, or raise OptionError; null asks for help. */
export function optionsIn(given: readonly string[]): Options | null {
  const values = parsed(given);
  if (values.help === true) {
    return null;
  }
  const { task, records = null, columns = "", out = null, to = null, check = false } = values;
  if (task === undefined) {
    throw new OptionError(said("needsTask"));
  }
  if (records === null && (to === null || check)) {
    throw new OptionError(said("needsRecords"));
  }
  if (out === null && !check) {
    throw new OptionError(said("needsOut"));
  }
  const { certificate = null, counted = null, epsilon = null, delta = null } = values;
  const runs = { epsilon, delta, forTasks: values["for-tasks"] ?? null, privacyUnit: values["privacy-unit"] ?? null };
  return { task, records, columns, out, to, certificate, counted, runs, check };
}

/** Return what the command does, and its options. */
export function help(): string {
  const options = Object.entries(OPTIONS).map(([name, option]) =>
    described(`  --${name}${option.type === "string" ? "=…" : ""}`, words(option.help)),
  );
  const parts = [words("helpUsage"), "", words("helpWhat"), "", words("helpExample"), "", words("helpOptions")];
  return [...parts, ...options].map((line) => `${line}\n`).join("");
}

/** Return an option with its help in lines, beside it or, where it is too long for that, below it. */
function described(option: string, text: string): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && MARGIN + line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = "";
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  lines.push(line);
  const indented = lines.map((one) => `${" ".repeat(MARGIN)}${one}`);
  const isBeside = option.length + 2 <= MARGIN;
  return isBeside ? `${option}${indented.join("\n").slice(option.length)}` : [option, ...indented].join("\n");
}

function parsed(given: readonly string[]): Given {
  try {
    return parseArgs({ args: [...given], options: OPTIONS, allowPositionals: false }).values;
  } catch (error) {
    if (error instanceof TypeError) {
      const fault = (error.message.split(/\.\s|\n/)[0] ?? "").replace(/\.$/, "");
      throw new OptionError(said("badOption", { fault }));
    }
    throw error;
  }
}
