/** The page from which a person or an organization takes part: its views, and what leads from one to the next. */

import {
  countRecords,
  dayOf,
  envelopeBytes,
  FairSharesError,
  inWords,
  seal,
  upload,
  type ClientRecord,
  type Explanation,
  type Language,
  type PartyResult,
  type SealedUpload,
  type SendingState,
  type Sentence,
  type TableRecords,
  type Task,
} from "../src/index.js";
import { fill } from "../src/sentences.js";
import { about, countsTable } from "./about.js";
import { AnswerForm, noAnswers, type Answers } from "./answers.js";
import { button, element, paragraph, type Child } from "./dom.js";
import { noTable, TableForm, type GivenTable } from "./organization.js";
import { isTaken, packages, receipt, stateTable } from "./sending.js";
import { areAllStored, forget, keep, keptFor, StoreError, withState, type Kept } from "./store.js";
import { languages, textsIn, type Texts, type Wording, type Wordings } from "./texts.js";

/** Who takes part: a person with one answer, or an organization with a table. */
type Who = "person" | "organization";

/** A text of the page, what is filled in, and what is added: a sentence, or what the browser says in English. */
export interface Said {
  readonly text: keyof Texts;
  readonly values?: Readonly<Record<string, string>>;
  readonly detail?: Sentence | string;
}

type View =
  | { readonly kind: "error"; readonly said: Said }
  | { readonly kind: "earlier" }
  | { readonly kind: "form"; readonly fault: string }
  | { readonly kind: "preview"; readonly records: readonly ClientRecord[] }
  | { readonly kind: "sealing" }
  | { readonly kind: "sending" }
  | { readonly kind: "sealed"; readonly sealed: SealedUpload }
  | { readonly kind: "done"; readonly identity: string };

/** What a page shows. */
export interface Setting {
  readonly task: Task;
  readonly facts: Explanation;
  readonly wordings: Wordings;
  readonly addresses: readonly string[]; // where each party's package goes
  readonly link: string; // the page's address, with an invitation if there is one
  readonly isInvited: boolean; // whether these are of one invitation
  readonly route: "send" | "save, as the page is a file" | "save"; // how packages leave the page
  readonly isReadOnly: boolean; // whether a link of one's own is needed, and missing
}

const ONE_AT_A_TIME = "fairshares"; // the name of the lock that tabs share

export class TakePart {
  private view: View = { kind: "form", fault: "" };
  private language: Language;
  private who: Who = "person";
  private answers: Answers = noAnswers();
  private given: GivenTable = noTable();
  private earlier: readonly Kept[] = [];
  private submission: Kept | null = null;
  private results: readonly PartyResult[] = [];
  private isBusy = false;
  private wasWiped = false;
  private toForget = ""; // the receipt of a submission whose packages are to be deleted, if that is confirmed
  private writing: Promise<void> = Promise.resolve();
  /**
   * What is read aloud of a change that leaves the view and the focus as they are.
   *
   * It is there before there is anything to say: a region that comes together with its text is often not read.
   */
  private readonly heard = element("p", { role: "status", class: "heard", id: "heard" });
  private toBeHeard = "";

  constructor(
    private readonly root: HTMLElement,
    private readonly setting: Setting,
    language: Language,
  ) {
    this.language = language;
  }

  /** Look for earlier submissions in this browser, and show the first view. */
  async start(): Promise<void> {
    document.body.append(this.heard);
    if (this.setting.route === "send" && !this.setting.isReadOnly) {
      await this.guarded(async () => {
        this.earlier = await keptFor(this.setting.task);
        if (this.earlier.length > 0) {
          this.view = { kind: "earlier" };
        }
      });
    }
    this.render(false);
  }

  private get texts(): Texts {
    return textsIn(this.language);
  }

  private get wording(): Wording {
    return this.setting.wordings[this.language] ?? {};
  }

  /** What `share --to` is to be given for packages that were saved. */
  private get sentTo(): string {
    return this.setting.isInvited ? `"${this.setting.link}"` : "task";
  }

  private get answerForm(): AnswerForm {
    return new AnswerForm(this.setting.task, this.wording, this.texts, this.answers);
  }

  private get tableForm(): TableForm {
    return new TableForm(this.setting.task, this.wording, this.texts, this.language, this.given, () => {
      const focused = document.activeElement?.id ?? "";
      this.view = { kind: "form", fault: "" };
      document.getElementById("of-table")?.replaceChildren(...this.ofTable());
      document.getElementById(focused)?.focus();
      this.tell();
    });
  }

  private show(view: View, movesFocus = true): void {
    this.view = view;
    this.render(movesFocus);
  }

  /** Write the view. A reader of screens is led to its heading, unless the view stays the same. */
  private render(movesFocus: boolean): void {
    const { texts, wording } = this;
    const title = wording.title ?? texts.title;
    document.documentElement.lang = this.language;
    document.title = title;
    const header = element("header", {}, element("h1", {}, title), this.languageChoice());
    this.toBeHeard = "";
    const main = element("main", { id: "main" }, ...this.content());
    this.root.replaceChildren(header, main);
    this.tell();
    if (movesFocus) {
      const heading = main.querySelector("h2");
      heading?.setAttribute("tabindex", "-1");
      heading?.focus();
    }
  }

  /** Have a reader of screens say what is new. */
  private tell(): void {
    if (this.heard.textContent !== this.toBeHeard) {
      this.heard.textContent = this.toBeHeard;
    }
  }

  private languageChoice(): HTMLElement {
    const buttons = languages().map(({ code, name }) => {
      const made = button(name, "other", () => {
        this.language = code;
        if (this.view.kind === "form") {
          this.view = { kind: "form", fault: "" }; // it was said in the other language
        }
        this.render(false);
        document.getElementById(`language-${code}`)?.focus();
      });
      made.id = `language-${code}`;
      made.lang = code;
      made.setAttribute("aria-pressed", String(code === this.language));
      return made;
    });
    return element("nav", { "aria-label": this.texts.languages }, ...buttons);
  }

  private content(): readonly Child[] {
    const { view, texts } = this;
    switch (view.kind) {
      case "error":
        return errorView(view.said, this.language);
      case "earlier":
        return this.earlierView();
      case "form":
        return this.formView(view.fault);
      case "preview":
        return this.previewView(view.records);
      case "sealing":
        return [element("h2", {}, texts.sendingHeading), element("p", { role: "status" }, texts.sealing)];
      case "sending":
        return this.sendingView();
      case "sealed":
        return this.sealedView(view.sealed);
      case "done":
        return this.doneView(view.identity);
    }
  }

  private formView(fault: string): readonly Child[] {
    const { texts, wording } = this;
    const { task, facts } = this.setting;
    const intro = [paragraph(wording.purpose ?? texts.purpose)];
    if (wording.contact !== undefined) {
      intro.push(paragraph(fill(texts.contact, { contact: wording.contact })));
    }
    if (task.admission === "anyone") {
      intro.push(element("p", { class: "notice" }, texts.promiseOpen));
    }
    const said = [...intro, ...about(task, facts, texts, this.language)];
    if (this.setting.isReadOnly) {
      return [...said, element("p", { class: "notice" }, texts.errorNoLink)];
    }
    const alert = fault === "" ? [] : [element("p", { role: "alert", class: "fault", id: "fault" }, fault)];
    const form = this.who === "person" ? [...this.personFields(), ...alert] : this.organizationFields(alert);
    return [...said, ...this.routeNotice(), ...this.whoChoice(), element("section", {}, ...form)];
  }

  private routeNotice(): readonly Child[] {
    const { texts } = this;
    const notices = { send: "", "save, as the page is a file": texts.fromDisk, save: texts.cannotSend };
    const notice = notices[this.setting.route];
    return notice === "" ? [] : [element("p", { class: "notice" }, notice)];
  }

  private whoChoice(): readonly Child[] {
    if (this.setting.task.domain.maxCount === 1n) {
      return []; // a client of this task has one record
    }
    const kinds: readonly (readonly [Who, string])[] = [
      ["person", this.texts.whoPerson],
      ["organization", this.texts.whoOrganization],
    ];
    const options = kinds.map(([who, text]) => {
      const input = element("input", { type: "radio", name: "who", id: `who-${who}`, value: who, autocomplete: "off" });
      input.checked = this.who === who;
      input.addEventListener("change", () => {
        this.who = who;
        this.show({ kind: "form", fault: "" }, false);
        document.getElementById(`who-${who}`)?.focus();
      });
      return element("div", { class: "option" }, input, element("label", { for: input.id }, text));
    });
    return [element("fieldset", { role: "radiogroup" }, element("legend", {}, this.texts.whoHeading), ...options)];
  }

  private personFields(): readonly Child[] {
    const { texts } = this;
    const form = this.answerForm;
    const next = button(texts.preview, "main", () => {
      const fault = form.fault();
      if (fault === null) {
        this.show({ kind: "preview", records: [form.record()] });
        return;
      }
      this.show({ kind: "form", fault: fault.sentence }, false);
      const field = document.getElementById(fault.field);
      const help = field?.getAttribute("aria-describedby") ?? "";
      field?.setAttribute("aria-invalid", "true");
      field?.setAttribute("aria-describedby", `fault ${help}`.trim()); // or the focus would be read, and not why
      const first = field instanceof HTMLFieldSetElement ? field.querySelector("input") : field;
      first?.focus();
    });
    return [element("h2", {}, texts.formHeading), ...form.fields(), element("div", { class: "buttons" }, next)];
  }

  private organizationFields(alert: readonly Child[]): readonly Child[] {
    const follows = element("div", { id: "of-table" }, ...this.ofTable(), ...alert);
    return [element("h2", {}, this.texts.tableHeading), ...this.tableForm.fields(), follows];
  }

  /** Return what follows from an organization's table: its columns, what is counted, and how to go on. */
  private ofTable(): readonly Child[] {
    const { texts } = this;
    const form = this.tableForm;
    const counted = form.counted();
    const fields = [...form.columns(), ...form.clients()];
    this.toBeHeard = "";
    if (counted.kind === "not yet") {
      return fields;
    }
    const said = counted.kind === "records" ? this.saidOfCounted(counted) : counted.sentence;
    this.toBeHeard = said;
    const next = button(texts.preview, "main", () => {
      if (counted.kind === "records" && counted.of.records.length > 0) {
        this.show({ kind: "preview", records: counted.of.records });
        return;
      }
      this.show({ kind: "form", fault: counted.kind === "fault" ? counted.sentence : texts.noRows }, false);
    });
    const shown =
      counted.kind === "records"
        ? [element("p", { id: "counted" }, said), ...form.leftOut(counted.of.leftOut), this.counts(counted.of.records)]
        : [element("p", { class: "help" }, said)];
    return [...fields, ...shown, element("div", { class: "buttons" }, next)];
  }

  private saidOfCounted({ of, rows }: { readonly of: TableRecords; readonly rows: number }): string {
    return fill(this.texts.counted, {
      records: of.records.length.toLocaleString(this.language),
      rows: rows.toLocaleString(this.language),
    });
  }

  private counts(records: readonly ClientRecord[]): HTMLElement {
    const form = this.answerForm;
    const { groups, labels } = this.setting.task.domain;
    return countsTable(
      (group, label) =>
        records.filter((record) => record.group === group && (label === "" || record.label === label)).length,
      { groups, labels },
      {
        caption: this.texts.previewCounts,
        group: (name) => form.groupName(name),
        label: (name) => form.labelName(name),
      },
      this.texts,
    );
  }

  private previewView(records: readonly ClientRecord[]): readonly Child[] {
    const { texts } = this;
    const { task, route } = this.setting;
    const [first] = records;
    const shown: Child[] = [element("h2", {}, texts.previewHeading)];
    if (this.who === "person" && first !== undefined) {
      const said = this.answerForm.inWords(first);
      shown.push(paragraph(texts.previewAnswer));
      shown.push(element("dl", {}, ...said.flatMap(([q, a]) => [element("dt", {}, q), element("dd", {}, a)])));
    } else {
      shown.push(this.counts(records));
    }
    const { cap, detail } = task.domain;
    if (cap !== null && !cap.weightOne && records.length > cap.slots) {
      shown.push(paragraph(fill(texts.previewCapped, { slots: cap.slots })));
    }
    if (cap !== null || (detail.kind === "value" && detail.grid.rounding === "random")) {
      shown.push(paragraph(texts.previewDrawn));
    }
    const sizes = task.parties.map(({ name }, party) =>
      fill(texts.previewOf, { bytes: envelopeBytes(task, party).toLocaleString(this.language), name }),
    );
    shown.push(paragraph(fill(texts.previewSealed, { parties: task.parties.length, sizes: sizes.join(", ") })));
    const go = button(route === "send" ? texts.send : texts.sealOnly, "main", () => void this.sealAndSend(records));
    go.id = "send";
    const back = button(texts.change, "other", () => this.show({ kind: "form", fault: "" }));
    return [...shown, element("div", { class: "buttons" }, go, back)];
  }

  private sendingView(): readonly Child[] {
    const { texts, submission } = this;
    if (submission === null) {
      return [];
    }
    const { task } = this.setting;
    const shown: Child[] = [
      element("h2", {}, texts.sendingHeading),
      ...(this.wasWiped ? [paragraph(texts.wiped)] : []),
      element("div", { role: "status", id: "states" }, stateTable(task, submission.states, this.results, this.language)),
    ];
    if (this.isBusy) {
      return shown;
    }
    shown.push(paragraph(texts.unfinished));
    if (submission.states.includes("unknown")) {
      shown.push(paragraph(texts.unknownMeans));
    }
    if (isTaken(this.results)) {
      shown.push(paragraph(texts.takenMeans));
    }
    const again = button(texts.again, "main", () => void this.send());
    again.id = "again";
    return [
      ...shown,
      element("div", { class: "buttons" }, again),
      ...receipt(task, submission.identity, texts),
      element("h3", {}, texts.saveHeading),
      ...packages(task, submission, this.sentTo, texts),
      ...this.forgetting(submission),
    ];
  }

  private sealedView(sealed: SealedUpload): readonly Child[] {
    const { texts } = this;
    const { task } = this.setting;
    return [
      element("h2", {}, texts.sealedHeading),
      paragraph(texts.wiped),
      paragraph(texts.sealedMeans),
      ...packages(task, sealed, this.sentTo, texts),
      ...receipt(task, sealed.identity, texts),
    ];
  }

  private doneView(identity: string): readonly Child[] {
    const { texts } = this;
    const done = this.earlier.find((kept) => kept.identity === identity);
    return [
      element("h2", {}, texts.doneHeading),
      element("p", { role: "status", id: "done" }, texts.done),
      ...receipt(this.setting.task, identity, texts),
      ...(done === undefined ? [] : this.forgetting(done)),
    ];
  }

  private earlierView(): readonly Child[] {
    const { texts } = this;
    const same = this.setting.isInvited ? this.earlier.find((kept) => this.isSameLink(kept)) : undefined;
    const shown = same === undefined ? this.earlier : [same];
    const parts = shown.map((kept) => {
      const isDone = areAllStored(kept.states);
      const text = same === undefined ? texts.earlierDone : texts.earlierSame;
      const unfinished = same === undefined ? texts.earlierUnfinished : texts.earlierSameUnfinished;
      const go = isDone
        ? button(texts.showReceipt, "other", () => this.show({ kind: "done", identity: kept.identity }))
        : button(texts.goOn, "main", () => {
            this.submission = kept;
            void this.send();
          });
      return element("section", { class: "earlier" }, paragraph(isDone ? text : unfinished), element("div", { class: "buttons" }, go));
    });
    const another = button(texts.iAmAnother, "other", () => this.show({ kind: "form", fault: "" }));
    another.id = "another";
    return [
      element("h2", {}, texts.earlierHeading),
      ...parts,
      ...(same === undefined ? [element("div", { class: "buttons" }, another)] : []),
    ];
  }

  /** Return the button by which this device forgets a submission; packages that may be needed ask once more. */
  private forgetting(kept: Kept): readonly Child[] {
    const { texts } = this;
    const isDone = areAllStored(kept.states);
    const remove = (): void => {
      void this.alone(async () => {
        await this.writing;
        await forget(kept.identity);
        this.earlier = this.earlier.filter(({ identity }) => identity !== kept.identity);
        this.submission = null;
        this.show({ kind: "error", said: { text: "forgotten" } });
      });
    };
    if (!isDone && this.toForget === kept.identity) {
      const sure = button(texts.forgetSure, "other", remove);
      const cancel = button(texts.cancel, "other", () => {
        this.toForget = "";
        this.render(true);
      });
      return [
        element("p", { role: "alert", class: "fault" }, texts.forgetUnfinished),
        element("div", { class: "buttons" }, sure, cancel),
      ];
    }
    const ask = (): void => {
      this.toForget = kept.identity;
      this.render(false);
    };
    const made = button(texts.forget, "other", isDone ? remove : ask);
    made.id = "forget";
    return [element("div", { class: "buttons" }, made)];
  }

  private isSameLink(kept: Kept): boolean {
    return this.setting.isInvited && kept.addresses[0] === this.setting.addresses[0];
  }

  /**
   * Seal the records, once, wipe the answer, keep the packages and send them.
   *
   * Nothing is sealed if another tab has meanwhile sealed for the same link, nor twice by a second click.
   */
  private async sealAndSend(records: readonly ClientRecord[]): Promise<void> {
    if (this.isBusy) {
      return;
    }
    const { task, route, addresses } = this.setting;
    await this.alone(async () => {
      if (route === "send") {
        const known = new Set(this.earlier.map(({ identity }) => identity));
        this.earlier = await keptFor(task);
        if (this.earlier.some((kept) => !known.has(kept.identity) || this.isSameLink(kept))) {
          this.wipe();
          this.show({ kind: "earlier" });
          return;
        }
      }
      this.show({ kind: "sealing" });
      const sealed = await seal(task, countRecords(task, records));
      this.wipe();
      if (route !== "send") {
        this.show({ kind: "sealed", sealed });
        return;
      }
      const states = task.parties.map((): SendingState => "not sent");
      const envelopes = sealed.envelopes.map((envelope) => new Uint8Array(envelope));
      const submission: Kept = { identity: sealed.identity, task: task.fingerprint, addresses, states, envelopes };
      await keep(submission);
      this.earlier = [...this.earlier, submission];
      this.submission = submission;
      await this.sendOut(submission);
    });
  }

  /** Go on sending what was sealed, by what is known of it now: another tab may have gone on, or forgotten it. */
  private async send(): Promise<void> {
    const { submission } = this;
    if (submission === null || this.isBusy) {
      return;
    }
    await this.alone(async () => {
      this.earlier = await keptFor(this.setting.task);
      this.submission = this.earlier.find(({ identity }) => identity === submission.identity) ?? null;
      if (this.submission === null) {
        this.show({ kind: "error", said: { text: "forgotten" } });
      } else if (areAllStored(this.submission.states)) {
        this.submission = null;
        this.show({ kind: "done", identity: submission.identity });
      } else {
        await this.sendOut(this.submission);
      }
    });
  }

  /** Send the packages that are not known to be stored. Each state is on the disk before the next step. */
  private async sendOut(submission: Kept): Promise<void> {
    const { task } = this.setting;
    const { identity, envelopes, addresses } = submission;
    this.results = [];
    this.show({ kind: "sending" });
    const results = await upload(task, { identity, envelopes }, {
      addresses,
      earlier: submission.states,
      keep: (party, state) => this.keepState(party, state),
    });
    this.results = results;
    this.isBusy = false;
    if (areAllStored(this.submission?.states ?? [])) {
      this.submission = null;
      this.show({ kind: "done", identity });
    } else {
      this.render(true);
    }
  }

  /** Keep a party's state. Writes follow one another, so that an earlier one never ends last. */
  private keepState(party: number, state: SendingState): Promise<void> {
    const before = this.submission;
    if (before === null) {
      return Promise.resolve();
    }
    const after = withState(before, party, state);
    this.submission = after;
    this.earlier = [...this.earlier.filter(({ identity }) => identity !== after.identity), after];
    this.writing = this.writing.then(() => keep(after));
    this.showStates();
    return this.writing;
  }

  /** Show the states without writing the whole view anew, so that what is read aloud is the change. */
  private showStates(): void {
    const place = document.getElementById("states");
    if (this.submission !== null && place !== null) {
      place.replaceChildren(stateTable(this.setting.task, this.submission.states, this.results, this.language));
    }
  }

  /** Empty the form, and everything that was made of it. */
  private wipe(): void {
    this.answers = noAnswers();
    this.given = noTable();
    this.wasWiped = true;
  }

  /** Do something while no other tab of this browser seals or sends. */
  private async alone(does: () => Promise<void>): Promise<void> {
    this.isBusy = true;
    await this.guarded(async () => {
      if (this.setting.route !== "send") {
        await does(); // a file has no origin, and so no lock and nothing that is kept
        return;
      }
      await navigator.locks.request(ONE_AT_A_TIME, { ifAvailable: true }, async (lock) => {
        if (lock === null) {
          this.show({ kind: "error", said: { text: "errorTab" } });
          return;
        }
        await does();
      });
    });
    this.isBusy = false;
  }

  /** Do something, and show in one sentence what went wrong. */
  private async guarded(does: () => Promise<void>): Promise<void> {
    try {
      await does();
    } catch (error) {
      this.wipe();
      this.isBusy = false;
      this.show({ kind: "error", said: saidOf(error) });
    }
  }
}

/** Return what is said of an error. */
export function saidOf(error: unknown): Said {
  if (error instanceof StoreError) {
    return { text: "errorStore" };
  }
  const name = error instanceof Error ? error.name : "";
  const usual = error instanceof Error ? error.message : String(error);
  const detail = error instanceof FairSharesError ? error.sentence : usual;
  const known: Readonly<Record<string, keyof Texts>> = {
    TaskError: "errorTask",
    UnsupportedError: "errorBrowser",
    RecordsError: "errorRecords",
  };
  const text = known[name] ?? "errorOther";
  return text === "errorBrowser" ? { text } : { text, detail };
}

/** Return the view of what does not work. */
export function errorView(said: Said, language: Language): readonly Child[] {
  const texts = textsIn(language);
  const heading = said.text === "forgotten" ? texts.forgotten : texts.errorHeading;
  if (said.text === "forgotten") {
    return [element("h2", {}, heading)];
  }
  const { detail = "" } = said;
  const more = typeof detail === "object" ? inWords(detail, language) : element("span", { lang: "en" }, detail);
  const added = detail === "" ? [] : [" ", more];
  const sentence = element("p", { role: "alert", id: "error" }, fill(texts[said.text], said.values ?? {}), ...added);
  return [element("h2", {}, heading), sentence];
}

/** Return what is said where the last day of a task is over by this machine's clock. */
export function saidOfEnd(until: string, now: Date): Said {
  return { text: "errorOver", values: { until, today: dayOf(now) } };
}
