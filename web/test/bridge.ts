/**
 * Does for the project's tests in Python what they ask for: a request in JSON on each line of standard input, an answer
 * on each line of standard output. What the library refuses is answered by its error's name and message.
 */

import { createInterface } from "node:readline";

import { fromHex, toHex, type Bytes } from "../src/bytes.js";
import {
  countRecords,
  envelopeBytes,
  explain,
  FairSharesError,
  readTable,
  readTask,
  recordsOf,
  seal,
  upload,
  type ClientRecord,
  type Columns,
  type Policy,
  type SendingState,
} from "../src/index.js";
import { openEnvelope } from "../src/opening.js";

interface Request {
  readonly what: "table" | "read" | "explain" | "count" | "seal" | "open" | "upload";
  readonly task: string; // hexadecimal digits
  readonly records?: readonly ClientRecord[];
  readonly row?: readonly number[];
  readonly times?: number;
  readonly bounds?: Policy;
  readonly now?: string;
  readonly party?: number;
  readonly keys?: Readonly<Record<string, string>>;
  readonly envelope?: string;
  readonly identity?: string;
  readonly envelopes?: readonly string[];
  readonly addresses?: readonly string[];
  readonly earlier?: readonly SendingState[];
  readonly pause?: number;
  readonly text?: string;
  readonly columns?: Columns;
}

async function answerTo(request: Request): Promise<unknown> {
  const task = await readTask(fromHex(request.task));
  const now = request.now === undefined ? new Date() : new Date(request.now);
  switch (request.what) {
    case "read":
      return {
        fingerprint: task.fingerprint,
        columns: task.columns,
        envelopes: task.parties.map((_, party) => envelopeBytes(task, party)),
      };
    case "explain":
      return explain(task, now);
    case "table":
      return recordsOf(task, readTable(request.text ?? ""), request.columns ?? { group: "" });
    case "count":
      return Array.from({ length: request.times ?? 1 }, () => [...countRecords(task, request.records ?? [])]);
    case "seal": {
      const sealed: unknown[] = [];
      for (let i = 0; i < (request.times ?? 1); i += 1) {
        const row = request.records ? countRecords(task, request.records) : Float64Array.from(request.row ?? []);
        const { identity, envelopes } = await seal(task, row, { now, ...(request.bounds && { bounds: request.bounds }) });
        sealed.push({ identity, envelopes: envelopes.map(toHex) });
      }
      return sealed;
    }
    case "open": {
      const keys = Object.entries(request.keys ?? {}).map(([id, secret]): [string, Bytes] => [id, fromHex(secret)]);
      return openEnvelope(task, request.party ?? 0, new Map(keys), fromHex(request.envelope ?? ""));
    }
    case "upload": {
      const kept: unknown[] = [];
      const sealed = { identity: request.identity ?? "", envelopes: (request.envelopes ?? []).map(fromHex) };
      const results = await upload(task, sealed, {
        ...(request.addresses && { addresses: request.addresses }),
        ...(request.earlier && { earlier: request.earlier }),
        keep: (party, state) => void kept.push([party, state]),
        wait: () => new Promise((resolve) => setTimeout(resolve, request.pause ?? 1)),
      });
      return { results, kept };
    }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request: Request = JSON.parse(line);
  let answer: unknown;
  try {
    answer = { answer: await answerTo(request) };
  } catch (error) {
    if (!(error instanceof FairSharesError)) {
      throw error;
    }
    answer = { error: error.name, message: error.message };
  }
  process.stdout.write(`${JSON.stringify(answer, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value))}\n`);
}
