import { spawnSync } from 'node:child_process';
import path from 'node:path';
import t from 'tap';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { openNotes } from './uses.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
/** Uses MongoDB through product code, through the test kit and directly, then kills itself. */
const PROGRAM = `
  import { findAttemptById } from '#infra/mongo/attempt/attempts.ts';
  import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
  const ends = [];
  const mongo = await openTestMongo({ teardown: (work) => ends.push(work) }, { empty: true });
  await findAttemptById(mongo, 'a');
  await mongo.db.collection('rows').findOne({ at: { $gte: 1 } });
  for (const work of ends) await work();
  process.kill(process.pid, 'SIGKILL');
`;

t.test('the recorder of a killed process stores the features of product code and none of its tests', async (t) => {
  const notes = openNotes();
  t.teardown(() => notes.remove());
  const args = [`--import=${import.meta.resolve('./recorder.ts')}`, '--input-type=module', '--eval', PROGRAM];
  const env = { PATH: process.env.PATH, MONGODB_URL: requiredEnv('MONGODB_URL'), ...notes.env };
  const { signal, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, env, encoding: 'utf8' });
  t.equal(signal, 'SIGKILL', stderr);
  const uses = notes.read();
  t.strictSame([...(uses.get('command find') ?? [])], ['shared/infra/mongo/attempt/attempts.ts']);
  t.ok(uses.has('option readConcern.level=majority'));
  t.notOk(uses.has('query $gte'), 'a command of the test itself');
  t.notOk(uses.has('command dropDatabase'), 'a command of the kit');
});
