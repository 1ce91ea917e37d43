import { randomBytes } from 'node:crypto';
import { type Mongo, openReleaseMongo } from '#infra/mongo/connect.ts';
import { notifications } from '#infra/mongo/notification/collections.ts';
import { listNotifications } from '#infra/mongo/notification/inbox.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { alternate, timed } from '#scripts/bench/alternate.ts';
import type { BenchContext, Measure } from '#scripts/bench/context.ts';
import { figuresOf } from '#scripts/bench/row.ts';
import { newId } from '#shared/kernel/ids.ts';
import { newNotification } from '#shared/notification/notification.ts';

const ROWS_PER_USER = 100;
const BATCH = 5_000;
const LIMIT = 20;
/** Measures a page of an inbox with both counts, among 200,000 rows, against its three bare queries. */
export const measureInbox: Measure = async (context) => {
  const users = context.quick ? 500 : 2_000;
  const database = `bench_${randomBytes(5).toString('hex')}`;
  // A connection like that of `release`: building an index over so many rows exceeds the timeouts of other processes.
  const mongo = openReleaseMongo({ url: context.mongodbUrl, database, appName: 'examhall-bench' });
  try {
    // Build the indexes before the rows. With the rows in place, an engine in Rust takes longer than half an hour for them.
    await createIndexes(mongo);
    await fill(mongo, users, context);
    let turn = 0;
    const nextUser = () => `student-${(turn++ * 7_919) % users}`;
    const wanted = { organizationId: null, filter: 'ALL', q: null } as const;
    const { ours, reference } = await alternate({
      ours: () => {
        const userId = nextUser();
        return timed(() => listNotifications(mongo, { ...wanted, userId }, { page: 1, limit: LIMIT }));
      },
      reference: () => {
        const userId = nextUser();
        return timed(() => bare(mongo, userId));
      },
      rounds: context.quick ? 100 : 500,
      warmUp: 50,
      step: (done, of) => context.progress.step(of + done, 2 * of),
    });
    return [
      {
        name: 'a page of an inbox, with its counts',
        unit: 'ms',
        ours: figuresOf(ours),
        reference: figuresOf(reference),
        against: 'its three bare queries',
        aim: { side: 'most', ratio: 1.3 },
        notes: [`${users * ROWS_PER_USER} rows of ${users} users; ${LIMIT} rows a page`],
      },
    ];
  } finally {
    await mongo.db.dropDatabase().catch(() => undefined);
    await mongo.close();
  }
};

function bare(mongo: Mongo, userId: string): Promise<unknown> {
  const inbox = { userId, place: 'INBOX' };
  return Promise.all([
    notifications(mongo)
      .find(inbox, { sort: { createdAt: -1, _id: -1 }, limit: LIMIT })
      .toArray(),
    notifications(mongo).countDocuments(inbox),
    notifications(mongo).countDocuments({ ...inbox, isRead: false }),
  ]);
}

/** Stores the rows, oldest first, in fan-outs to all users; every third row is read. */
async function fill(mongo: Mongo, users: number, context: BenchContext): Promise<void> {
  const total = users * ROWS_PER_USER;
  const first = Date.now() - total;
  for (let from = 0; from < total; from += BATCH) {
    const rows = Array.from({ length: Math.min(BATCH, total - from) }, (_, index) => {
      const n = from + index;
      const now = new Date(first + n);
      const input = {
        userId: `student-${n % users}`,
        type: 'EXAM_ASSIGNED',
        title: 'Bài thi mới',
        content: `Bài ${n}`,
      };
      const origin = { fanOutId: `fan-out-${Math.floor(n / users)}`, sourceEventRef: null, organizationId: 'org-1' };
      const ordinal = n % users;
      const row = newNotification(input, { id: newId(now.getTime()), now, place: 'INBOX', ordinal, origin });
      return n % 3 === 0 ? { ...row, isRead: true, readAt: now } : row;
    });
    await notifications(mongo).insertMany(rows, { ordered: false });
    context.progress.step(from, 2 * total);
  }
}
