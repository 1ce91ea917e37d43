import { hash } from 'node:crypto';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';

/**
 * A session of the console by OPS_TOKEN whose holder has signed out. Its cookie contains the session, so that a copy would open the console
 * until the end of the session. The session of an account ends with that of its login and has no row here.
 */
export interface ConsoleEnd {
  /** Digest of the session's proof. A reader of the database cannot send a form with it. */
  _id: string;
  /** When the session would have ended by itself; the row is of no use afterwards. */
  endsAt: Date;
}

export const CONSOLE_ENDS = 'console_ends';

/** A session of the console: its own random word, and its latest end in Unix milliseconds. */
interface Ended {
  csrf: string;
  endsAt: number;
}

/** Ends a session at every front door. A repeat changes nothing. */
export async function endConsoleSession(mongo: Mongo, { csrf, endsAt }: Ended): Promise<void> {
  const row = { $setOnInsert: { endsAt: new Date(endsAt) } };
  await ends(mongo).updateOne({ _id: idOf(csrf) }, row, { upsert: true });
}

/** Returns true if the holder of the session has signed out. */
export async function isConsoleSessionEnded(mongo: Mongo, { csrf }: Pick<Ended, 'csrf'>): Promise<boolean> {
  return (await ends(mongo).findOne({ _id: idOf(csrf) }, { maxTimeMS: QUERY_LIMIT_MS })) !== null;
}

function idOf(csrf: string): string {
  return hash('sha256', `examhall console session:${csrf}`, 'base64url');
}

function ends(mongo: Mongo) {
  return mongo.db.collection<ConsoleEnd>(CONSOLE_ENDS);
}
