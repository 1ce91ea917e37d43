import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { type Document, Long } from 'mongodb';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { HOUR, SECOND } from '#shared/kernel/time.ts';
import { type Behaviour, insertRow, inWords, refusalOf, type Trial } from './scratch.ts';

const AFTER = { returnDocument: 'after' } as const;

/** MongoDB's clock inside updates, which decides every deadline and every lease. */
export const TIMES: readonly Behaviour[] = [
  {
    name: 'server time',
    breaks: 'Deadlines of exams and leases of commands would be compared with a wrong clock.',
    async fault(trial) {
      const { rows } = trial;
      const id = await insertRow(trial, { never: null });
      const before = await helloTime(trial);
      const first = await stampTimes(trial, id);
      await delay(TICK_MS);
      const second = await stampTimes(trial, id);
      const after = await helloTime(trial);
      if (before === null || after === null) return '`hello` returns no `localTime`';
      for (const { at, ahead, past } of [first, second]) {
        if (at === null || ahead !== at + HOUR || past !== at - HOUR)
          return '$$NOW is no date, has two values within one update, or is added to wrongly';
        const skewMs = Math.max(before - at, at - after);
        if (skewMs > CLOCK_TOLERANCE_MS) return `$$NOW and \`localTime\` of \`hello\` differ by ${skewMs} ms`;
      }
      if (first.at === second.at) return '$$NOW does not advance';
      const isOver = (path: string) => ({ $lte: [msOf(path), NOW_MS] });
      const judged = { ahead: isOver('$ahead'), past: isOver('$past'), never: isOver('$never') };
      const row = await rows.findOneAndUpdate({ _id: id }, [{ $set: { isOver: judged } }], AFTER);
      return isDeepStrictEqual(row?.isOver, { ahead: false, past: true, never: true })
        ? undefined
        : `$$NOW, compared with an hour ahead, an hour ago and null, is ${JSON.stringify(row?.isOver)}`;
    },
  },
];

/** Wait between two updates whose times must differ. The clock counts whole milliseconds. */
const TICK_MS = 3;
/** Half a lease. Each router of a sharded cluster has its own clock; leases are unsafe if the clocks differ by more. */
const CLOCK_TOLERANCE_MS = 5 * SECOND;

async function helloTime({ mongo }: Trial): Promise<number | null> {
  return timeOf((await mongo.db.admin().command({ hello: 1 })).localTime);
}

/** Stores `$$NOW` in two stages, as a guarded update does. Conditions and changes must use the same time. */
async function stampTimes({ rows }: Trial, id: string) {
  const stages = [{ $set: { at: '$$NOW' } }, { $set: { ahead: nowPlus(HOUR), past: nowPlus(-HOUR) } }];
  const row = await rows.findOneAndUpdate({ _id: id }, stages, AFTER);
  return { at: timeOf(row?.at), ahead: timeOf(row?.ahead), past: timeOf(row?.past) };
}

/** Returns Unix milliseconds, or null if the value is not a date. */
function timeOf(value: unknown): number | null {
  return value instanceof Date ? value.getTime() : null;
}

/** Single writes. Most promises of the product depend on conditions that MongoDB evaluates in an update pipeline. */
export const UPDATES: readonly Behaviour[] = [
  {
    name: 'literals',
    breaks: 'An answer that begins with `$` would be read as the name of a field, and stored as something else.',
    async fault(trial) {
      const text = { text: '$name', list: ['$$NOW', { nested: '$name' }], empty: {} };
      const id = await insertRow(trial, { name: 'field' });
      const row = await trial.rows.findOneAndUpdate({ _id: id }, [{ $set: { copy: literal(text) } }], AFTER);
      return isDeepStrictEqual(row?.copy, text) ? undefined : `$literal stores ${JSON.stringify(row?.copy ?? null)}`;
    },
  },
  {
    name: 'guarded updates',
    breaks: 'Answers would be accepted after the deadline, and a command could run under a lease that is over.',
    async fault(trial) {
      const { rows } = trial;
      const id = await insertRow(trial, { state: 'OPEN', a: 1, b: 2, zero: 0 });
      const close = () => guardedUpdate([{ $eq: ['$state', 'OPEN'] }], { state: 'CLOSED', a: '$b', b: '$a' });
      const closed = await rows.updateOne({ _id: id }, close().pipeline);
      if (closed.matchedCount !== 1 || closed.modifiedCount !== 1)
        return 'an update whose conditions hold is not counted as modified';
      const again = await rows.updateOne({ _id: id }, close().pipeline);
      if (again.matchedCount !== 1 || again.modifiedCount !== 0)
        return 'an update whose conditions do not hold is counted as modified';
      const refused = close();
      const kept = await rows.findOneAndUpdate({ _id: id }, refused.pipeline, AFTER);
      const isKept = kept?.state === 'CLOSED' && kept.a === 2 && kept.b === 1 && !wasAccepted(refused, kept);
      if (!isKept) return 'an update whose conditions do not hold changes the row, or returns another one';
      const reopen = guardedUpdate([{ $eq: ['$state', 'CLOSED'] }], { state: 'OPEN' });
      const opened = await rows.findOneAndUpdate({ _id: id }, reopen.pipeline, AFTER);
      if (opened?.state !== 'OPEN' || !wasAccepted(reopen, opened))
        return 'findAndModify does not return the row as it is after the update';
      const failing = [{ $set: { a: 'changed' } }, { $set: { b: { $divide: [1, '$zero'] } } }];
      const failure = await refusalOf(rows.updateOne({ _id: id }, failing));
      const unchanged = await rows.findOne({ _id: id });
      if (failure === undefined || unchanged?.a !== 2)
        return 'an update whose second stage fails keeps the first stage';
      const missing = await rows.findOneAndUpdate({ _id: trial.newId() }, close().pipeline, AFTER);
      return missing === null ? undefined : 'an update of a row that does not exist returns a row';
    },
  },
  {
    name: 'concurrent updates',
    breaks: 'Two workers could claim one command, and one of two answers that are saved at once could be lost.',
    async fault(trial) {
      const { rows } = trial;
      const id = await insertRow(trial, { count: 0, fence: 0 });
      const crowd = Array.from({ length: CROWD });
      const count = [{ $set: { count: { $add: ['$count', 1] } } }];
      const refusals = await Promise.all(crowd.map(() => refusalOf(rows.updateOne({ _id: id }, count))));
      const refusal = refusals.find((one) => one !== undefined);
      if (refusal !== undefined) return `one of ${CROWD} updates of a row at once ${inWords(refusal)}`;
      const claims = await Promise.all(
        crowd.map(async () => {
          const claim = guardedUpdate([{ $eq: ['$fence', 0] }], { fence: { $add: ['$fence', 1] } });
          return wasAccepted(claim, await rows.findOneAndUpdate({ _id: id }, claim.pipeline, AFTER));
        }),
      );
      const accepted = claims.filter((isAccepted) => isAccepted).length;
      const row = await rows.findOne({ _id: id });
      if (row?.count !== CROWD) return `${row?.count} of ${CROWD} updates of a row at once are stored`;
      return accepted === 1 && row.fence === 1
        ? undefined
        : `${accepted} of ${CROWD} claims of a row at once are accepted`;
    },
  },
  {
    name: 'retried writes',
    breaks: 'A save or submit that the driver repeats after a lost connection would be applied twice.',
    async fault(trial) {
      const { rows } = trial;
      const id = await insertRow(trial, { n: 0 });
      const u = [{ $set: { n: { $add: ['$n', 1] } } }];
      await sendTwice(trial, { update: rows.collectionName, updates: [{ q: { _id: id }, u }] });
      const updated = await rows.findOne({ _id: id });
      if (updated?.n !== 1) return 'an update that is sent twice under one transaction number is applied twice';
      const [first, second] = await sendTwice(trial, {
        findAndModify: rows.collectionName,
        query: { _id: id },
        update: u,
        new: true,
      });
      const row = await rows.findOne({ _id: id });
      if (row?.n !== 2) return 'a findAndModify that is sent twice under one transaction number is applied twice';
      const isSame = first?.value?.n === 2 && second?.value?.n === 2;
      return isSame ? undefined : 'the second reply to a repeated findAndModify is not that of the first';
    },
  },
];

const CROWD = 8;

/** Sends a command twice, as the driver does if the reply to a retryable write was lost. Returns both replies. */
async function sendTwice({ mongo, session }: Trial, command: Document): Promise<Document[]> {
  // Without causal consistency the driver adds nothing to the second command, so it is identical to the first.
  const own = session({ causalConsistency: false });
  own.serverSession.txnNumber += 1;
  const txnNumber = Long.fromNumber(own.serverSession.txnNumber);
  const sent = { ...command, txnNumber, writeConcern: { w: 'majority', j: true } };
  const replies: Document[] = [];
  for (const _ of [1, 2]) replies.push(await mongo.db.command({ ...sent }, { session: own }));
  return replies;
}
