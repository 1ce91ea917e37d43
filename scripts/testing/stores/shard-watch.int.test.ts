import { spawnSync } from 'node:child_process';
import path from 'node:path';
import t from 'tap';
import { requiredEnv } from './open-test-mongo.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');

/** Runs statements of product code and of a test in a watched process. */
function run(statements: string) {
  const program = `
    import { findAttemptById } from '#infra/mongo/attempt/attempts.ts';
    import { attempts } from '#infra/mongo/attempt/collections.ts';
    import { markSubmitted } from '#infra/mongo/attempt/submit.ts';
    import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
    import { demandShardKeys } from '#testing/stores/shard-watch.ts';
    demandShardKeys();
    const ends = [];
    const mongo = await openTestMongo({ teardown: (work) => ends.push(work) }, { empty: true });
    const submit = (attempt) =>
      markSubmitted(mongo, { attempt, source: 'STUDENT', overdueByMs: null, maxAttempts: 1, now: 0, budgetMs: 5_000 });
    ${statements}
    for (const work of ends) await work();
  `;
  const env = { PATH: process.env.PATH, MONGODB_URL: requiredEnv('MONGODB_URL') };
  const args = ['--input-type=module', '--eval', program];
  return spawnSync(process.execPath, args, { cwd: ROOT, env, encoding: 'utf8' });
}

t.test('a process passes whose product code names the shard key, or has an exception', async (t) => {
  const { status, stderr } = run(`
    await submit({ _id: 'a', studentId: 's' });
    await findAttemptById(mongo, 'a');
    // A statement of a test is not one of the product.
    await attempts(mongo).updateOne({ _id: 'a' }, { $set: { at: 1 } });
  `);
  t.strictSame([status, stderr], [0, '']);
});

t.test(
  'a process fails at its end if product code does not name the shard key, and names the statement once',
  async (t) => {
    const { status, stderr } = run('for (let n = 0; n < 2; n++) await submit({ _id: "a" });');
    t.equal(status, 1);
    t.match(
      stderr,
      /^error: attempts update \{_id\} in shared\/infra\/mongo\/attempt\/submit\.ts is a write that MongoDB 7 refuses/,
    );
    t.equal(stderr.split('error: ').length, 2);
  },
);
