import { supersededAmong } from '#infra/mongo/classifier/generation-epochs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isErased, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { type CommandOf, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { type DeadGroups, deadGroups } from '#infra/mongo/mailbox/dead-groups.ts';
import { findCommand, firstPlace, letterPage } from '#infra/mongo/mailbox/dead-letters.ts';
import { findLive, mailboxOf, postCommandIn } from '#infra/mongo/mailbox/mailbox.ts';
import { actAsOperator, type BulkLine, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import { type BulkBody, bulkOrder, isSameRequest, isTaken } from '#shared/operations/bulk-act.ts';
import type { LetterFilter } from '#shared/operations/dead-letter.ts';
import type { DeadOrder } from './dead-acts.ts';

const QUEUE = 'upkeep:deadletters';
export type BulkAct = CommandOf<typeof QUEUE>;

export interface BulkRequest extends DeadOrder {
  filter: LetterFilter;
  perSecond: number;
  /** Two requests with one key are one act. */
  key: string;
}

/** The letters that an act with this filter would take now, and their groups. */
export interface BulkPreview extends DeadGroups {
  /** Letters that the act would change. If there are `more`, it is a lower bound. */
  counted: number;
  /** Superseded settlements, which a replay without consent skips. They are in `groups`, and not in `counted`. */
  superseded: number;
}

/** Counts the letters that a bulk act would take if it were requested at `now` (Unix milliseconds, MongoDB's clock). */
export async function previewBulk(
  mongo: Mongo,
  { act, filter, chargeSuperseded }: Pick<BulkRequest, 'act' | 'filter' | 'chargeSuperseded'>,
  now: number,
): Promise<BulkPreview> {
  const chosen = { ...filter, until: untilOf(filter, now) };
  const { groups, counted, more } = await countChosen(mongo, { act, filter: chosen });
  const mayRefuse = act === 'replay' && !chargeSuperseded && groups.some(({ queue }) => queue === 'settlement');
  const superseded = mayRefuse ? await supersededAmong(mongo, await settlementsOf(mongo, chosen)) : 0;
  return { groups, more, superseded, counted: Math.max(0, counted - superseded) };
}

/** Returns the letters of a filter by cause, and how many of them an act meets. */
async function countChosen(
  mongo: Mongo,
  { act, filter }: Pick<BulkRequest, 'act' | 'filter'>,
): Promise<Omit<BulkPreview, 'superseded'>> {
  const all = await deadGroups(mongo, filter);
  const groups = all.groups.filter(({ queue }) => isTaken(queue, filter));
  const taken = ({ count, acknowledged }: (typeof groups)[number]) => count - (act === 'ack' ? acknowledged : 0);
  return { groups, more: all.more, counted: groups.reduce((sum, group) => sum + taken(group), 0) };
}

/** Dead settlements whose generations a preview reads. */
const MAX_SETTLEMENTS = 1_000;

/** Returns the generations of the first dead settlements of a filter. */
async function settlementsOf(mongo: Mongo, filter: LetterFilter): Promise<string[]> {
  const chosen = { ...filter, queue: 'settlement' } as const;
  const { letters } = await letterPage(mongo, chosen, firstPlace(chosen), { limit: MAX_SETTLEMENTS });
  return letters.map(({ subject }) => subject);
}

function untilOf({ until }: LetterFilter, now: number): Date {
  return new Date(Math.min(until?.getTime() ?? now, now));
}

/**
 * Result of a request for a bulk act. `posted`: the stored act, of this request or of an equal one with its key. `reused`: the key belongs
 * to this act, which is another request. `erased`: the subject is an erased person, so nothing is stored.
 */
export type BulkPost = { kind: 'posted' | 'reused'; command: BulkAct } | { kind: 'erased' };

/**
 * Stores a bulk act, which the process type `upkeep` carries out, with a line of the audit in one transaction. The letters are those that
 * have died by `by.now`. The erasure of a person has deleted the person's letters, and an act would store the id again.
 */
export async function postBulk(
  mongo: Mongo,
  { key, filter, ...request }: BulkRequest,
  by: OperatorAct,
  { maxAttempts }: { maxAttempts: number },
): Promise<BulkPost> {
  const { operator, reason, now } = by;
  const { subject } = filter;
  if (subject !== undefined && (await isErased(mongo, subject))) return { kind: 'erased' };
  const chosen = { ...filter, until: untilOf(filter, now) };
  const { counted, more } = await countChosen(mongo, { ...request, filter: chosen });
  const body: BulkBody = {
    ...request,
    filter: chosen,
    operator,
    reason,
    counted,
    ...(more ? { more } : {}),
    ...(subject === undefined ? {} : { subjectDigest: await tombstoneId(mongo, subject) }),
  };
  const command = newCommand({ ...bulkOrder(key, body), maxAttempts, now });
  try {
    await actAsOperator(mongo, by, async (session) => {
      await postCommandIn(mongo, session, command);
      return { result: undefined, line: bulkLine('begin', command, { act: body.act, counted }) };
    });
    return { kind: 'posted', command };
  } catch (error) {
    if (!isDuplicateKey(error, ['key'])) throw error;
    const stored = await findLive(mongo, QUEUE, command.key);
    if (stored === null) throw error;
    // Without a time of its own, a request takes the letters of its first arrival.
    const until = untilOf(filter, stored.createdAt.getTime());
    const repeated = { ...body, filter: { ...filter, until } };
    return { kind: isSameRequest(stored.body, repeated) ? 'posted' : 'reused', command: stored };
  }
}

/**
 * Returns the line of the audit for the begin, the stop or the end of a bulk act. Its filter may name a person, so that the line has the
 * digest of the subject, as lines about persons have.
 */
export function bulkLine(
  step: 'begin' | 'stop' | 'end',
  { _id: commandId, queue, subject, body: { subjectDigest = subject } }: BulkAct,
  detail: BulkLine['detail'],
): BulkLine {
  return { action: `dead.bulk-${step}`, commandId, queue, subject: subjectDigest, detail };
}

/** Returns a bulk act, or null if no bulk act has this id. */
export async function findBulk(mongo: Mongo, id: string): Promise<BulkAct | null> {
  const command = await findCommand(mongo, id);
  return command?.queue === QUEUE ? (command as BulkAct) : null;
}

/** Returns the newest bulk acts. */
export function listBulks(mongo: Mongo, limit: number): Promise<BulkAct[]> {
  return mailboxOf(mongo, QUEUE)
    .find({ queue: QUEUE }, { hint: 'bulk_acts', sort: { createdAt: -1 }, limit, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
}

/**
 * Stops a bulk act before its next letter, with a line of the audit in one transaction. What it has done stays done. Returns false if it
 * has ended, or is stopped already.
 */
export function stopBulk(mongo: Mongo, command: BulkAct, by: OperatorAct): Promise<boolean> {
  const { _id, key } = command;
  const { operator, reason, now } = by;
  return actAsOperator(mongo, by, async (session) => {
    const stopped = await mailboxOf(mongo, QUEUE).updateOne(
      { _id, key, status: 'PENDING', 'body.stop': { $exists: false } },
      { $set: { 'body.stop': { operator, reason, at: new Date(now) } } },
      { session },
    );
    const result = stopped.matchedCount === 1;
    return { result, line: result ? bulkLine('stop', command, { act: command.body.act }) : null };
  });
}
