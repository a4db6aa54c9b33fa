/** Reads the task that this page was written for, and shows the page. */

import { ascii } from "../src/bytes.js";
import { activeKey, dayOf, explain, languageFor, readTask, TaskError, type Task } from "../src/index.js";
import { element } from "./dom.js";
import { addressesOf, linkOf } from "./invitation.js";
import { errorView, saidOf, saidOfEnd, TakePart, type Said, type Setting } from "./page.js";
import { textsIn, type Wordings } from "./texts.js";

async function show(root: HTMLElement): Promise<void> {
  const language = languageFor(navigator.languages);
  let setting: Setting | Said;
  try {
    setting = await settingOf();
  } catch (error) {
    setting = saidOf(error);
  }
  if ("text" in setting) {
    const texts = textsIn(language);
    document.documentElement.lang = language;
    document.title = texts.title;
    const header = element("header", {}, element("h1", {}, texts.title));
    root.replaceChildren(header, element("main", { id: "main" }, ...errorView(setting, language)));
    return;
  }
  await new TakePart(root, setting, language).start();
}

/** Return what the page shows, or why it cannot be used. */
async function settingOf(): Promise<Setting | Said> {
  if (globalThis.crypto?.subtle === undefined || navigator.locks === undefined) {
    return { text: "errorBrowser" };
  }
  const now = new Date();
  const task = await readTask(ascii(contentOf("fairshares-task")));
  if (dayOf(now) > task.until) {
    return saidOfEnd(task.until, now);
  }
  if (hasExpired(task, now)) {
    return { text: "errorExpired", values: { today: dayOf(now) } };
  }
  const link = linkOf(location.hash, task);
  if (link.kind === "broken" || link.kind === "other task") {
    return { text: link.kind === "broken" ? "errorLink" : "errorOtherTask" };
  }
  const isInvited = link.kind === "invitation";
  const addresses = isInvited
    ? await addressesOf(task, link.secret)
    : task.parties.map((party) => party.address);
  const wordings: Wordings = JSON.parse(contentOf("fairshares-wording"));
  const facts = await explain(task, now);
  const isReadOnly = task.admission === "urls" && !isInvited;
  return { task, facts, wordings, addresses, link: location.href, isInvited, route: routeOf(addresses), isReadOnly };
}

function hasExpired(task: Task, now: Date): boolean {
  try {
    task.parties.forEach((party) => activeKey(party, now));
    return false;
  } catch (error) {
    if (error instanceof TaskError) {
      return true;
    }
    throw error;
  }
}

/** Return how packages leave this page: a page that is a file has no origin that servers could let in. */
function routeOf(addresses: readonly string[]): Setting["route"] {
  if (location.protocol === "file:") {
    return "save, as the page is a file";
  }
  return addresses.every((address) => address.startsWith("https://")) ? "send" : "save";
}

function contentOf(name: string): string {
  return document.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
}

const root = document.getElementById("page");
if (root !== null) {
  void show(root);
}
window.addEventListener("hashchange", () => location.reload()); // another link was opened in this tab
