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
      const before = await helloTime(trial);
      const id = await insertRow(trial, {});
      const first = await stampTimes(trial, id);
      await delay(TICK_MS);
      const second = await stampTimes(trial, id);
      const after = await helloTime(trial);
      if (before === null || after === null) return '`hello` returns no `localTime`';
      for (const { at, later } of [first, second]) {
        if (at === null || at !== later) return '$$NOW is no date, or has two values within one update';
        const skewMs = Math.max(before - at, at - after);
        if (skewMs > CLOCK_TOLERANCE_MS) return `$$NOW and \`localTime\` of \`hello\` differ by ${skewMs} ms`;
      }
      return first.at === second.at ? '$$NOW does not advance' : undefined;
    },
  },
  {
    name: 'time arithmetic',
    breaks: 'Leases, retry times and deadlines would be computed wrongly: commands would run twice at once, or never.',
    async fault(trial) {
      const { rows } = trial;
      const id = await insertRow(trial, { never: null });
      const times = { at: '$$NOW', ahead: nowPlus(HOUR), past: nowPlus(-HOUR) };
      const row = await rows.findOneAndUpdate({ _id: id }, [{ $set: times }], AFTER);
      const at = timeOf(row?.at);
      if (at === null || timeOf(row?.ahead) !== at + HOUR || timeOf(row?.past) !== at - HOUR) {
        return '$$NOW plus or minus an hour is stored as another time';
      }
      const isOver = (path: string) => ({ $lte: [msOf(path), NOW_MS] });
      const judged = { ahead: isOver('$ahead'), past: isOver('$past'), never: isOver('$never') };
      const compared = await rows.findOneAndUpdate({ _id: id }, [{ $set: { isOver: judged } }], AFTER);
      if (!isDeepStrictEqual(compared?.isOver, { ahead: false, past: true, never: true })) {
        return `$$NOW, compared with an hour ahead, an hour ago and null, is ${JSON.stringify(compared?.isOver)}`;
      }
      const found = await rows.findOne({ _id: id, ahead: { $gt: new Date(at) }, past: { $lt: new Date(at) } });
      return found === null ? 'a query does not find a row by a date that an update has computed' : undefined;
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
async function stampTimes({ rows }: Trial, id: string): Promise<{ at: number | null; later: number | null }> {
  const stages = [{ $set: { at: '$$NOW' } }, { $set: { later: '$$NOW' } }];
  const row = await rows.findOneAndUpdate({ _id: id }, stages, AFTER);
  return { at: timeOf(row?.at), later: timeOf(row?.later) };
}

/** Returns Unix milliseconds, or null if the value is not a date. */
function timeOf(value: unknown): number | null {
  return value instanceof Date ? value.getTime() : null;
}
