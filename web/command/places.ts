/** Places of a user's own, which no other user can change or replace. Root is trusted. Windows has no such modes. */

import { lstatSync, readlinkSync } from "node:fs";
import { isAbsolute, join, resolve, sep } from "node:path";

import type { Sentence } from "../src/index.js";
import { said } from "./texts.js";

const WRITABLE = 0o022; // for others than the owner
const STICKY = 0o1000;
const MOST_LINKS = 40; // that a path leads through, as in Linux

/** Return how others could change a directory itself, as a sentence without its end, or null if nobody can. */
export function directoryFault(directory: string): Sentence | null {
  const user = process.geteuid?.();
  const status = lstatSync(directory);
  if (!status.isDirectory()) {
    return said("placeNone", { place: directory });
  }
  if (user === undefined) {
    return null;
  }
  if (status.uid !== user) {
    return said("placeOthers", { place: directory });
  }
  return (status.mode & WRITABLE) === 0 ? null : said("placeWritable", { place: directory });
}

/**
 * Return how others could put something else in the place of a directory, as a sentence without its end, or null.
 *
 * Every directory and link on the way belongs to this user or root, and others can write to sticky directories alone.
 */
export function wayFault(directory: string): Sentence | null {
  const user = process.geteuid?.();
  if (user === undefined) {
    return null;
  }
  let links = 0;
  let place: string = sep;
  const left = resolve(directory).split(sep).filter((name) => name !== "");
  for (;;) {
    const status = lstatSync(place);
    if (!status.isDirectory()) {
      return said("placeNone", { place });
    }
    if (status.uid !== user && status.uid !== 0) {
      return said("placeOthers", { place });
    }
    if ((status.mode & WRITABLE) !== 0 && (status.mode & STICKY) === 0) {
      return said("placeWritable", { place });
    }
    const name = left.shift();
    if (name === undefined) {
      return null;
    }
    const next = join(place, name);
    const link = lstatSync(next);
    if (name === ".." || !link.isSymbolicLink()) {
      place = next;
      continue;
    }
    links += 1;
    if ((link.uid !== user && link.uid !== 0) || links > MOST_LINKS) {
      return said("placeLink", { place: next });
    }
    const target = readlinkSync(next);
    place = isAbsolute(target) ? sep : place;
    left.unshift(...target.split(sep).filter((part) => part !== "" && part !== "."));
  }
}
