import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { captureLog } from '#testing/captured-log.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { gate, until } from '#testing/until.ts';
import { openWanted } from './subscriptions.ts';

const mongo = await openTestMongo(t);

t.test('a read of the subscriptions that fails or hangs neither fails nor delays a change', async (t) => {
  let now = 0;
  let reads = 0;
  let answer: () => Promise<unknown> = () => Promise.reject(new Error('no primary'));
  const db = { collection: () => ({ find: () => ({ toArray: () => (++reads > 0 ? answer() : null) }) }) };
  const log = captureLog();
  const wanted = openWanted({ ...mongo, db: db as unknown as typeof mongo.db }, () => now, log);
  const wants = async () => {
    const known = await wanted.wants('attempt.graded');
    await setImmediate();
    return known;
  };
  const later = async (ms: number) => {
    now += ms;
    const [before, known] = [reads, await wants()];
    t.equal(reads, before + 1, 'read again in the background');
    return known;
  };
  t.notOk(await wants(), 'a process that has never read knows of none');
  t.notOk(await later(5_000));
  t.equal(log.lines.length, 1, 'one warning for the outage');
  answer = () => Promise.resolve([{ types: ['attempt.graded'] }]);
  t.notOk(await later(5_000), 'no change waits during an outage');
  await until('the list is read', wants);
  const go = gate();
  answer = () => go.opened.then(() => []);
  t.ok(await later(2_500), 'a list in use is read again before it is old, and nothing waits for it');
  now += 2_500;
  t.ok(await wants(), 'the last known list counts, after one wait that is bounded');
  t.equal(log.lines.length, 2);
  t.ok(await wants());
  go.open();
  await until('the late reply counts', async () => !(await wants()));
});
