/** FairShares' client: reads a task, counts records, seals them for the parties, and uploads them. */

export { countRecords, type ClientRecord } from "./counting.js";
export type { Cap, Detail, FormName, RecordDomain, Rounding, ValueGrid } from "./domain.js";
export type { ArithmeticName } from "./elements.js";
export { FairSharesError, OptionError, RecordsError, TaskError, UnsupportedError } from "./errors.js";
export { explain, type ExplainedParty, type Explanation } from "./explain.js";
export type { Policy, PrivacyUnit, ReleaseName } from "./policy.js";
export { seal, type SealedUpload, type SealOptions } from "./seal.js";
export { reasonOf } from "./reasons.js";
export { inWords, LANGUAGES, languageFor, type Language, type Sentence, type Values } from "./sentences.js";
export { envelopeBytes } from "./sizes.js";
export {
  alike,
  readTable,
  recordsOf,
  recordsOfClients,
  type ClientsRecords,
  type Columns,
  type LeftOut,
  type RowFault,
  type Table,
  type TableRecords,
  type TableRow,
} from "./table.js";
export { activeKey, dayOf, readTask, type Admission, type Party, type SealingKey, type Task } from "./task.js";
export { upload, type Outcome, type PartyResult, type SendingState, type UploadOptions } from "./upload.js";
