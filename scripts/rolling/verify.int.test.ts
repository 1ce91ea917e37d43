import t from 'tap';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { hastenFanOuts } from './verify.ts';

const HOUR_MS = 3_600_000;

t.test('both waits of a fan-out are cut short, whatever index the server uses', async (t) => {
  const mongo = await openTestMongo(t);
  const commands = mongo.db.collection<{ _id: string }>('commands');
  const later = Date.now() + HOUR_MS;
  const row = (_id: string, more: object) => ({
    _id,
    queue: 'upkeep:fanouts',
    subject: _id,
    status: 'PENDING',
    lockedUntil: null,
    nextRunAt: new Date(later),
    progress: { phase: 'leave', movedAt: later },
    ...more,
  });
  await commands.insertMany([
    row('waits', {}),
    row('moves', { progress: { phase: 'rows', after: 3 } }),
    row('runs', { lockedUntil: new Date(later) }),
    row('other', { queue: 'grading' }),
    row('done', { status: 'DONE' }),
  ]);
  await hastenFanOuts({ mongo });
  const now = Date.now();
  const rows = await commands.find({}).toArray();
  const isDue = (id: string) => {
    const found = rows.find(({ _id }) => _id === id) as unknown as ReturnType<typeof row>;
    return found.nextRunAt.getTime() < now - 60_000;
  };
  t.strictSame(['waits', 'moves', 'runs', 'other', 'done'].map(isDue), [true, true, false, false, false]);
  const waits = rows.find(({ _id }) => _id === 'waits') as unknown as { progress: { movedAt: number } };
  t.ok(waits.progress.movedAt < now - 60_000);
});
