/**
 * One command at a time works in a directory, of Python's `share` and this one.
 *
 * Whoever is in turn has the file `.fairshares-turn` there. Python's is empty and locked. Node cannot lock files, so its
 * own has a content, which names the process, and is there until the process has ended in good order. The file of a
 * process that was killed is taken over by the next one, where Linux says that the process is gone.
 */

import { linkSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import timers from "node:timers/promises";

import { isOfFiles, SIGNALS } from "./envelopes.js";
import { words } from "./texts.js";

const TURN = ".fairshares-turn";
const PARTIAL = ".partial-";
const POLL_MS = 50;
const SILENCE_MS = 2000; // until somebody who waits is told
const ENDED = ["Z", "X"]; // the states of a process of which only the exit code is left

/**
 * A process in turn, as its file names it.
 *
 * @property pid its number, within `space`
 * @property began when it began, in ticks from the machine's start on; so a later process of that number is another
 * @property space the numbers' space: a container has one of its own, in which the same numbers are other processes
 * @property boot the machine's start, of which each has a name of its own
 * @property place the name of its directory for files that are not whole yet, beside the file of the turn
 */
interface Holder {
  readonly pid: string;
  readonly began: string;
  readonly space: string;
  readonly boot: string;
  readonly place: string;
}

/**
 * Do something while no other process of this user is in turn in a directory, and return what it returns.
 *
 * Raises an error of files if this user can make none in the directory.
 *
 * @param say tells whoever waits what for
 */
export async function inTurn<T>(directory: string, does: () => Promise<T>, say: (line: string) => void): Promise<T> {
  const turn = join(directory, TURN);
  const place = mkdtempSync(join(directory, PARTIAL));
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
    writeFileSync(own, thisProcess(basename(place)), { mode: 0o600 });
    const sayAt = Date.now() + SILENCE_MS;
    let isSaid = false;
    for (isInTurn = takes(own, turn, directory); !isInTurn; isInTurn = takes(own, turn, directory)) {
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

/**
 * Take a name for a file if nobody has it, or if whoever had it is gone; return whether it was taken.
 *
 * Two processes may find at the same time that a third one is gone. The one that first takes a name that stands for this
 * very process takes its place, and looks once more before, as somebody may have been faster altogether.
 */
function takes(own: string, name: string, directory: string): boolean {
  if (links(own, name)) {
    return true;
  }
  const holder = holderOf(name);
  if (holder === null || !isGone(holder)) {
    return false;
  }
  const successor = `${name}-after-${holder.pid}-${holder.began}`;
  if (!takes(own, successor, directory)) {
    return false;
  }
  try {
    const now = holderOf(name);
    if (now !== null && now.pid === holder.pid && now.began === holder.began) {
      rmSync(join(directory, holder.place), { recursive: true, force: true });
      rmSync(name, { force: true });
    }
    return links(own, name);
  } finally {
    rmSync(successor, { force: true });
  }
}

/** Give a file a second name, by which it is whole from the first moment on; return whether the name was free. */
function links(own: string, name: string): boolean {
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

/** Return what the file of this process says: its number alone where the system does not tell the rest. */
function thisProcess(place: string): string {
  const pid = `${process.pid}`;
  const here = numbersHere();
  const began = beganAt(pid);
  return here === null || began === null ? `${pid}\n` : `${[pid, began, here.space, here.boot, place].join(" ")}\n`;
}

/** Return the process that a file names, or null if it is Python's, names none in full, or cannot be read. */
function holderOf(file: string): Holder | null {
  const content = contentOf(file);
  const match = /^(\d+) (\d+) (\S+) (\S+) (\.partial-[A-Za-z0-9]+)\n$/.exec(content ?? "");
  const [, pid, began, space, boot, place] = match ?? [];
  if (pid === undefined || began === undefined || space === undefined || boot === undefined || place === undefined) {
    return null;
  }
  return { pid, began, space, boot, place };
}

/** Return whether a process has ended. Of one in another container, or of another start of a machine, nobody knows. */
function isGone(holder: Holder): boolean {
  const here = numbersHere();
  if (here === null || here.space !== holder.space || here.boot !== holder.boot) {
    return false;
  }
  return beganAt(holder.pid) !== holder.began;
}

/** Return what the numbers of processes belong to here; null where the system does not tell, as outside of Linux. */
function numbersHere(): { readonly space: string; readonly boot: string } | null {
  const boot = contentOf("/proc/sys/kernel/random/boot_id")?.trim();
  try {
    return boot === undefined ? null : { space: readlinkSync("/proc/self/ns/pid"), boot };
  } catch (error) {
    if (isOfFiles(error)) {
      return null;
    }
    throw error;
  }
}

/** Return when a process began, in ticks; null if there is no such process, or only its exit code is left of it. */
function beganAt(pid: string): string | null {
  const stated = contentOf(`/proc/${pid}/stat`);
  if (stated === null) {
    return null;
  }
  const [state = "", ...fields] = stated.slice(stated.lastIndexOf(")") + 2).split(" "); // its name may have any characters
  return ENDED.includes(state) ? null : (fields[18] ?? null);
}

/** Return a file's content; null if it is not there, or not for this user. */
function contentOf(file: string): string | null {
  try {
    return readFileSync(file, "utf-8");
  } catch (error) {
    if (isOfFiles(error)) {
      return null;
    }
    throw error;
  }
}
