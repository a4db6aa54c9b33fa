/**
 * One command at a time works in a directory, of Python's `share` and this one.
 *
 * Whoever is in turn has the file `.fairshares-turn` there. Python's is empty and locked. Node cannot lock files, so its
 * own has a content, and is there until the process has ended in good order.
 */

import { linkSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import timers from "node:timers/promises";

import { isOfFiles, SIGNALS } from "./envelopes.js";
import { words } from "./texts.js";

const TURN = ".fairshares-turn";
const POLL_MS = 50;
const SILENCE_MS = 2000; // until somebody who waits is told

/**
 * Do something while no other process of this user is in turn in a directory, and return what it returns.
 *
 * Raises an error of files if this user can make none in the directory.
 *
 * @param say tells whoever waits what for
 */
export async function inTurn<T>(directory: string, does: () => Promise<T>, say: (line: string) => void): Promise<T> {
  const turn = join(directory, TURN);
  const place = mkdtempSync(join(directory, ".partial-"));
  let isInTurn = false;
  const release = (): void => {
    rmSync(place, { recursive: true, force: true });
    if (isInTurn) {
      rmSync(turn, { force: true });
    }
  };
  const stop = (): void => {
    release();
    process.exit(130);
  };
  SIGNALS.forEach((signal) => process.on(signal, stop));
  try {
    const own = join(place, "turn");
    writeFileSync(own, `${process.pid}\n`, { mode: 0o600 });
    const sayAt = Date.now() + SILENCE_MS;
    let isSaid = false;
    for (isInTurn = takes(own, turn); !isInTurn; isInTurn = takes(own, turn)) {
      if (!isSaid && Date.now() >= sayAt) {
        isSaid = true;
        say(words("waiting", { file: turn }));
      }
      await timers.setTimeout(POLL_MS);
    }
    return await does();
  } finally {
    release();
    SIGNALS.forEach((signal) => process.off(signal, stop));
  }
}

/** Give a file a second name, by which it is whole from the first moment on; return whether the name was free. */
function takes(own: string, name: string): boolean {
  try {
    linkSync(own, name);
    return true;
  } catch (error) {
    if (isOfFiles(error) && error.code === "EEXIST") {
      return false;
    }
    throw error;
  }
}
