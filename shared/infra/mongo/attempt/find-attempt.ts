import type { Mongo } from '#infra/mongo/connect.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { attempts, textRows } from './collections.ts';

/** The attempt with the texts of all its answers, or null. */
export async function findAttempt(mongo: Mongo, id: string): Promise<Attempt | null> {
  // Again, because a save may replace a long text between the two reads; each round sees a newer attempt.
  for (let round = 1; ; round++) {
    const attempt = (await attempts(mongo).findOne({ _id: id })) as Attempt | null;
    if (attempt === null || (await fillTexts(mongo, attempt))) return attempt;
    if (round === 10) throw new Error(`attempt ${id} lacks the row of a long text`);
  }
}

/** Puts the long texts into the answers that refer to them. False: one is gone, so the attempt has changed since. */
export async function fillTexts(mongo: Mongo, attempt: Attempt): Promise<boolean> {
  const long = Object.entries(attempt.answers).filter(
    ([, answer]) => answer.textRef === true && answer.text === undefined,
  );
  if (long.length === 0) return true;
  const ids = long.map(([key, answer]) => textRowId(attempt._id, key, answer.serverVersion));
  const rows = await textRows(mongo)
    .find({ _id: { $in: ids } })
    .toArray();
  const texts = new Map(rows.map((row) => [row._id, row.text]));
  for (const [key, answer] of long) {
    const text = texts.get(textRowId(attempt._id, key, answer.serverVersion));
    if (text === undefined) return false;
    answer.text = text;
  }
  return true;
}

export function textRowId(attemptId: string, answerKey: string, serverVersion: number): string {
  return `${attemptId}:${answerKey}:${serverVersion}`;
}
