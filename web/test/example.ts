import { countRecords, explain, readTask, seal, upload, type ClientRecord, type SendingState } from "../src/index.js";

/** Show what a task means; if somebody takes part, send their records, and return what became of it at each party. */
export async function takePart(
  file: Uint8Array,
  ask: (meaning: readonly string[]) => Promise<readonly ClientRecord[] | null>,
  keep: (identity: string, party: number, state: SendingState, envelope: Uint8Array) => Promise<void>,
): Promise<readonly string[]> {
  const task = await readTask(file);
  const { sentences } = await explain(task);
  const records = await ask(sentences);
  if (records === null) {
    return [];
  }
  const sealed = await seal(task, countRecords(task, records)); // once: what is sealed anew counts twice
  const results = await upload(task, sealed, {
    keep: async (party, state) => {
      const envelope = sealed.envelopes[party];
      if (envelope !== undefined) {
        await keep(sealed.identity, party, state, envelope);
      }
    },
  });
  return results.map(({ name, outcome, answer }) => `${name}: ${outcome} (${answer})`);
}
