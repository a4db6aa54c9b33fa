/** What a client is told of its uploads is what the server said, and what is still unknown. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ascii, type Bytes } from "../src/bytes.js";
import { readTask, seal, upload, type SealedUpload, type SendingState, type Task, type UploadOptions } from "../src/index.js";
import { fileWith, taskWith, TASK_TEXT } from "./support.js";

const SEALED = await sealedFor(await readTask(ascii(TASK_TEXT)));
const ADDRESSES = ["https://a.example/p/", "https://b.example/p/", "https://c.example/once?signature=00ff"];

function sealedFor(task: Task): Promise<SealedUpload> {
  return seal(task, new Float64Array(task.columns));
}

/** What a server does with a request: answers a status, breaks the connection, or what Node says of one. */
type Answer = number | "broken" | "redirected" | { readonly code: string };

interface Seen {
  readonly url: string;
  readonly body: Bytes;
  readonly request: RequestInit;
}

/** Upload against servers that give these answers, in order, to party 0, and 201 to others. */
async function uploaded(
  answers: readonly Answer[],
  state: SendingState = "not sent",
  more: UploadOptions = {},
): Promise<{ end: string; seen: Seen[]; pauses: number[]; kept: string[] }> {
  const task = await readTask(ascii(TASK_TEXT));
  const left = [...answers];
  const seen: Seen[] = [];
  const pauses: number[] = [];
  const kept: string[] = [];
  const answering: typeof fetch = (url, request = {}) => {
    const sent: unknown = request.body;
    const body = sent instanceof Uint8Array ? Uint8Array.from(sent) : new Uint8Array(0);
    if (!String(url).startsWith("https://a.example/")) {
      return Promise.resolve(new Response(null, { status: 201 }));
    }
    seen.push({ url: String(url), body, request });
    const answer = left.shift() ?? 201;
    if (answer === "broken") {
      return Promise.reject(new TypeError("fetch failed"));
    }
    if (answer === "redirected") {
      const response = new Response(null, { status: 200 });
      Object.defineProperties(response, { type: { value: "opaqueredirect" }, status: { value: 0 } });
      return Promise.resolve(response);
    }
    if (typeof answer === "object") {
      return Promise.reject(new TypeError("fetch failed", { cause: Object.assign(new Error("x"), answer) }));
    }
    return Promise.resolve(new Response(null, { status: answer }));
  };
  const results = await upload(task, SEALED, {
    addresses: ADDRESSES,
    earlier: [state, "not sent", "not sent"],
    keep: (party, known) => {
      if (party === 0) {
        kept.push(known);
      }
    },
    fetch: answering,
    wait: (seconds) => {
      pauses.push(seconds);
      return Promise.resolve();
    },
    ...more,
  });
  assert.deepEqual(results.slice(1).map(({ outcome }) => outcome), ["stored", "stored"]);
  const { outcome = "", answer = "" } = results[0] ?? {};
  return { end: `${outcome} (${answer})`, seen, pauses, kept };
}

const UNTRUSTED = { code: "DEPTH_ZERO_SELF_SIGNED_CERT" };
const UNREACHED = { code: "ECONNREFUSED" };
const CASES: readonly (readonly [readonly Answer[], string])[] = [
  [[201], "stored (HTTP 201)"],
  [[200], "stored (HTTP 200)"],
  [[299], "stored (HTTP 299)"],
  [[503, 429, 204], "stored (HTTP 204)"],
  [[409], "not stored (HTTP 409)"],
  [[412], "not stored (HTTP 412)"],
  [[429, 409], "not stored (HTTP 409)"],
  [[307], "not stored (HTTP 307)"],
  [[404], "not stored (HTTP 404)"],
  [["redirected"], "not stored (the server answers from another address)"],
  [["broken", 409], "unknown (HTTP 409)"],
  [[500, 412], "unknown (HTTP 412)"],
  [["broken", 403], "unknown (HTTP 403)"],
  [["broken", "redirected"], "unknown (the server answers from another address)"],
  [["broken", "broken", "broken", "broken", "broken", "broken"], "unknown (the connection broke)"],
  [[429, 429, 429, 429, 429, 429], "not stored (HTTP 429)"],
  [[503, 503, 503, 503, 503, 503], "unknown (HTTP 503)"],
  [["broken", 201], "stored (HTTP 201)"],
  [[UNTRUSTED], "not stored (its certificate is not trusted here: DEPTH_ZERO_SELF_SIGNED_CERT)"],
  [[500, UNTRUSTED], "unknown (its certificate is not trusted here: DEPTH_ZERO_SELF_SIGNED_CERT)"],
  [[UNREACHED, UNREACHED, UNREACHED, UNREACHED, UNREACHED, UNREACHED], "not stored (nobody answers)"],
  [[UNREACHED, 201], "stored (HTTP 201)"],
];

for (const [answers, end] of CASES) {
  test(`${answers.map((answer) => JSON.stringify(answer)).join(", ")}: ${end}`, async () => {
    const told = await uploaded(answers);
    assert.equal(told.end, end);
    assert.equal(told.seen.length, answers.length, "no further try");
    told.seen.forEach(({ url, body, request }) => {
      assert.equal(url, `https://a.example/p/${SEALED.identity}.share`);
      assert.deepEqual(body, SEALED.envelopes[0], "the same bytes");
      assert.equal(request.method, "PUT");
      assert.deepEqual(request.headers, { "Content-Type": "application/octet-stream", "If-None-Match": "*" });
      assert.equal(request.redirect, "manual");
      assert.equal(request.credentials, "omit");
    });
    assert.deepEqual(told.kept, ["sending", end.slice(0, end.indexOf(" ("))]);
  });
}

test("pauses grow, each with a random part, and there are five", async () => {
  const { pauses } = await uploaded([503, 503, 503, 503, 503, 503]);
  assert.equal(pauses.length, 5);
  pauses.forEach((seconds, i) => assert.ok(seconds >= 2 ** (i - 1) && seconds < 2 ** i));
  assert.notDeepEqual(pauses, (await uploaded([503, 503, 503, 503, 503, 503])).pauses);
});

test("after an earlier try that had no answer a taken name is unknown", async () => {
  for (const state of ["unknown", "sending"] as const) {
    assert.equal((await uploaded([409], state)).end, "unknown (HTTP 409)");
    assert.equal((await uploaded([UNTRUSTED], state)).end.slice(0, 7), "unknown");
    assert.equal((await uploaded([201], state)).end, "stored (HTTP 201)");
  }
  assert.equal((await uploaded([409], "not stored")).end, "not stored (HTTP 409)");
});

test("what is stored is not sent again", async () => {
  const told = await uploaded([], "stored");
  assert.deepEqual([told.end, told.seen, told.kept], ["stored (stored before)", [], []]);
});

test("a URL of one upload is taken as it is", async () => {
  const urls = ["https://a.example/one?signature=00ff", ...ADDRESSES.slice(1)];
  assert.equal((await uploaded([201], "not sent", { addresses: urls })).seen[0]?.url, urls[0]);
});

test("a server that does not answer in time may have stored it", async () => {
  const silent: typeof fetch = (_, request = {}) =>
    new Promise((_resolve, reject) => {
      request.signal?.addEventListener("abort", () => reject(request.signal?.reason));
    });
  const { timeout } = AbortSignal;
  const limits: number[] = [];
  AbortSignal.timeout = (milliseconds) => {
    limits.push(milliseconds);
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 1);
    return controller.signal;
  };
  try {
    const task = await readTask(ascii(TASK_TEXT));
    const earlier: SendingState[] = ["not sent", "stored", "stored"];
    const [result] = await upload(task, SEALED, { addresses: ADDRESSES, earlier, fetch: silent, wait: () => Promise.resolve() });
    assert.deepEqual([result?.outcome, result?.answer], ["unknown", "it did not answer in time"]);
    assert.ok(limits.length === 6 && limits.every((limit) => limit === 31_000));
  } finally {
    AbortSignal.timeout = timeout;
  }
});

test("nothing is sent where an address is none, or is of another kind", async () => {
  const never: typeof fetch = () => Promise.reject(new Error("something was sent"));
  const refused = async (task: Task, says: RegExp, options: UploadOptions = {}): Promise<void> =>
    assert.rejects(upload(task, await sealedFor(task), { fetch: never, ...options }), says);
  const task = await readTask(ascii(TASK_TEXT));
  await refused(task, /A party without an address is no URL of https/);
  await refused(task, /http:\/\/a\.example\/ is no URL of https/, { addresses: ["http://a.example/", ...ADDRESSES.slice(1)] });
  await refused(task, /there are 2 addresses/, { addresses: ADDRESSES.slice(1) });
  await refused(task, /1 states are given/, { addresses: ADDRESSES, earlier: ["stored"] });
  await refused(await taskWith({ admission: "urls" }), /a URL of its own/, { addresses: ADDRESSES });
});

test("envelopes of another task or upload are not sent", async () => {
  const task = await readTask(ascii(TASK_TEXT));
  const other = await sealedFor(await taskWith({ least_uploads: 2 }));
  const again = await sealedFor(task);
  const [first, second, third] = SEALED.envelopes;
  assert.ok(first && second && third);
  const bad: readonly SealedUpload[] = [
    other,
    { identity: SEALED.identity, envelopes: [first, second] },
    { identity: SEALED.identity, envelopes: [first, second, third, third] },
    { identity: SEALED.identity, envelopes: [second, first, third.slice(1)] },
    { identity: SEALED.identity, envelopes: [first, second, ...again.envelopes.slice(2)] },
    { identity: "../x", envelopes: SEALED.envelopes },
  ];
  const never: typeof fetch = () => Promise.reject(new Error("something was sent"));
  for (const sealed of bad) {
    await assert.rejects(upload(task, sealed, { addresses: ADDRESSES, fetch: never }), /not one upload for this task/);
  }
});

test("what cannot be kept is not sent, and others are", async () => {
  const task = await readTask(ascii(TASK_TEXT));
  const sent: string[] = [];
  const answering: typeof fetch = (url) => {
    sent.push(String(url).slice(0, 17));
    return Promise.resolve(new Response(null, { status: 201 }));
  };
  const kept: string[] = [];
  const keep = (party: number, state: SendingState): void => {
    if (party === 0) {
      throw new Error("the disk is full");
    }
    kept.push(`${party} ${state}`);
  };
  await assert.rejects(upload(task, SEALED, { addresses: ADDRESSES, fetch: answering, keep }), /the disk is full/);
  assert.deepEqual(sent, ["https://b.example", "https://c.example"]);
  assert.deepEqual(kept.sort(), ["1 sending", "1 stored", "2 sending", "2 stored"]);
});

test("nothing is sent by a machine that is offline", async () => {
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: { onLine: false }, configurable: true });
  try {
    const never: typeof fetch = () => Promise.reject(new Error("something was sent"));
    const task = await readTask(ascii(TASK_TEXT));
    const results = await upload(task, SEALED, { addresses: ADDRESSES, fetch: never, wait: () => Promise.resolve() });
    results.forEach(({ outcome, answer }) => assert.equal(`${outcome} (${answer})`, "not stored (this machine is offline)"));
  } finally {
    Reflect.deleteProperty(globalThis, "navigator");
    if (before !== undefined) {
      Object.defineProperty(globalThis, "navigator", before);
    }
  }
});

test("a browser's certificate is shown where the task's servers want one", async () => {
  const file = fileWith({ admission: "certificate" });
  let credentials: string | undefined;
  const answering: typeof fetch = (_, request = {}) => {
    credentials = request.credentials;
    return Promise.resolve(new Response(null, { status: 201 }));
  };
  const task = await readTask(file);
  await upload(task, await sealedFor(task), { addresses: ADDRESSES, fetch: answering });
  assert.equal(credentials, "include");
});
