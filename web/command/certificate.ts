/** Requests that show a client's certificate, as Node's own `fetch` cannot. */

import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { createSecureContext } from "node:tls";

import { isOfFiles, ShareError } from "./envelopes.js";
import { said } from "./texts.js";

/**
 * Return what takes the place of `fetch` for `upload`, and shows the certificate in a PEM file, beside its key.
 *
 * Of an answer only status and headers are read, as its body could have no end. No redirection is followed. Raises
 * ShareError for a file that holds no certificate with its key.
 */
export function fetchShowing(file: string): typeof fetch {
  const agent = agentShowing(file);
  return (address, { body, headers, signal } = {}) =>
    new Promise((resolve, reject) => {
      const content = body instanceof Uint8Array ? body : new Uint8Array(0);
      const asked = request(String(address), {
        agent,
        method: "PUT",
        headers: { ...Object.fromEntries(new Headers(headers)), "Content-Length": content.length },
        ...(signal && { signal }),
      });
      asked.on("error", (cause) => reject(new TypeError("the request failed", { cause })));
      asked.on("response", (answer) => {
        if (answer.headers["content-length"] === "0") {
          answer.resume(); // its connection serves the next upload
        } else {
          answer.destroy();
        }
        resolve(new Response(null, { status: answer.statusCode ?? 0 }));
      });
      asked.end(content);
    });
}

function agentShowing(file: string): Agent {
  try {
    const pem = readFileSync(file);
    createSecureContext({ cert: pem, key: pem });
    return new Agent({ cert: pem, key: pem, keepAlive: true });
  } catch (error) {
    if (isOfFiles(error) || isOfTls(error)) {
      throw new ShareError(said("noCertificate", { file }));
    }
    throw error;
  }
}

/** Return whether an error is OpenSSL's, which has a code of its own. */
function isOfTls(error: unknown): boolean {
  return error instanceof Error && "code" in error && typeof error.code === "string" && error.code.startsWith("ERR_");
}
