/** What can go wrong, a class per mistake. Each error is one sentence, with the way out; `message` says it in English. */

import { inWords, type Sentence } from "./sentences.js";

export class FairSharesError extends Error {
  override name = "FairSharesError";

  constructor(readonly sentence: Sentence) {
    super(inWords(sentence, "en"));
  }
}

/** The task's file is none that this version knows, or its time is over. */
export class TaskError extends FairSharesError {
  override name = "TaskError";
}

/** A client's records do not fit the task; the sentence may name their values, as the client reads it. */
export class RecordsError extends FairSharesError {
  override name = "RecordsError";
}

/** An option of a call cannot be used. */
export class OptionError extends FairSharesError {
  override name = "OptionError";
}

/** This browser or runtime lacks what sealing needs. */
export class UnsupportedError extends FairSharesError {
  override name = "UnsupportedError";
}
