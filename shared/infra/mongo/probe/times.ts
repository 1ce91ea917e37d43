import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { msOf, NOW_MS, nowPlus } from '#infra/mongo/guarded-update.ts';
import { HOUR, SECOND } from '#shared/kernel/time.ts';
import { type Behaviour, insertRow, type Trial } from './scratch.ts';

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
