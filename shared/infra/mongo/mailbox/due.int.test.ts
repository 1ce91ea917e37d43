import t, { type Test } from 'tap';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { isStandInInPython, noneScans, planOf, watchFilters } from '#testing/stores/plans.ts';
import { COMMANDS, newCommand } from './commands.ts';
import { openDueReader } from './due.ts';

const HOUR = 3_600_000;
const NOW = Date.now();

/** Stores pending messages: `a*3` are three of the receiver a, each due a second after the one before; those of `-` have no receiver. */
async function storeMessages(t: Test, piles: readonly string[]) {
  const mongo = await openTestMongo(t);
  const rows = piles.flatMap((pile) => {
    const [name = '', count = '1'] = pile.split('*');
    return Array.from({ length: Number(count) }, (_, n) => ({
      ...newCommand({
        queue: 'upkeep:webhooks',
        key: `${name}${n}`,
        subject: 'exam',
        ...(name === '-' ? {} : { organizationId: name }),
        body: { subscriptionId: name, eventId: `${n}`, type: 'job.completed', createdAt: new Date(NOW), data: {} },
        maxAttempts: 3,
        now: NOW - HOUR + n * 1_000,
      }),
    }));
  });
  await mongo.db.collection(COMMANDS).insertMany(rows.map((row) => ({ ...row }) as never));
  const reader = openDueReader(mongo, 'upkeep:webhooks');
  return { mongo, read: async (limit: number) => (await reader(NOW, limit)).map(({ key }) => key).join(' ') };
}

t.test('all that is due is read, longest due first, also again', async (t) => {
  const { read } = await storeMessages(t, ['-', 'b*2', 'a*2']);
  t.match(await read(10), /^(-0|a0|b0) (-0|a0|b0) (-0|a0|b0) (a1|b1) (a1|b1)$/);
  t.equal((await read(10)).split(' ').length, 5);
  t.equal((await read(5)).split(' ').length, 5, 'a read that is just full');
  t.equal((await read(5)).split(' ').length, 5, 'begins anew');
});

t.test('a backlog of one fills a read, and the next one has the others', async (t) => {
  const { read } = await storeMessages(t, ['-', 'a*9', 'b*1', 'c*9', 'd*1']);
  t.equal(await read(4), '-0 a0 a1 a2');
  t.equal(await read(4), 'b0 c0 c1 c2');
  t.equal(await read(4), 'd0 -0 a0 a1', 'those after the place, then the first ones');
  t.equal(await read(4), 'b0 c0 c1 c2');
});

t.test('only pending commands of the queue that are due are read', async (t) => {
  const { mongo, read } = await storeMessages(t, ['a*4', 'b*1']);
  const change = (key: string, set: object) => mongo.db.collection(COMMANDS).updateOne({ key }, { $set: set });
  await change('a0', { status: 'DONE' });
  await change('a1', { queue: 'upkeep:publish' });
  await change('a2', { nextRunAt: new Date(NOW + 1) });
  t.equal(await read(10), 'b0 a3');
});

t.test('each read walks the index of its queue', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  const read = openDueReader(mongo, 'classifier');
  const open = (organizationId: string) =>
    newCommand({
      queue: 'classifier',
      key: organizationId,
      subject: 'job',
      organizationId,
      body: {},
      maxAttempts: 3,
      now: 0,
    });
  await mongo.db.collection(COMMANDS).insertMany([open('a'), open('b')] as never[]);
  for (let n = 0; n < 3; n++) await read(NOW, 1);
  await noneScans(t, mongo, seen, 2);
  // The stand-in in Python shows a filter with a second condition as a scan.
  if (await isStandInInPython(mongo)) return;
  for (const filter of seen.values())
    t.match((await planOf(mongo, filter)).at(-1), 'IXSCAN due_in_turns_classifier', filter.shape);
});
