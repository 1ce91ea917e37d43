import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { clusterHash } from '#infra/mongo/cluster-key.ts';
import { findTombstone, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { OPERATOR_AUDIT } from '#infra/mongo/operator-audit.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { storePerson } from '#testing/stored/stored-person.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { erasePerson } from './erase.ts';
import { countRows, findPerson } from './find.ts';

const mongo = await openTestMongo(t);
// The key of tombstones is written once, before the first erasure of a cluster.
await clusterHash(mongo);
const act = () => ({ operator: 'an', reason: 'request by letter', now: Date.now() });

/** Returns the receipt of an erasure that nothing interrupted, and the number of its writes. */
async function undisturbed() {
  const { id } = await storePerson(mongo);
  const spare = dyingProcess(mongo, Number.POSITIVE_INFINITY, 'before');
  const done = await erasePerson(spare.mongo, id, act());
  return { counts: done.tombstone.counts, writes: spare.passed() };
}

const { counts, writes } = await undisturbed();
t.ok(writes > 50, `an erasure has ${writes} writes`);

/** Death after a step is death before the next one, so only the first step is tested both ways. */
const DEATHS = [
  { point: 1, when: 'before' },
  ...Array.from({ length: writes }, (_, index) => ({ point: index + 1, when: 'after' as const })),
] as const;

t.test('a process that dies at any write of an erasure is continued by the next one', async (t) => {
  for (const { point, when } of DEATHS) {
    const { id, attemptId } = await storePerson(mongo);
    const broken = dyingProcess(mongo, point, when);
    await t.rejects(erasePerson(broken.mongo, id, act()), /the process is dead/, `dies ${when} write ${point}`);
    const isFinished = (await findTombstone(mongo, id))?.state === 'ERASED';
    t.equal(isFinished, point === writes);
    const done = await erasePerson(mongo, id, act());
    t.match(done, { kind: 'erased', already: isFinished, tombstone: { state: 'ERASED', pseudonym: null } });
    t.strictSame(done.tombstone.counts, counts, 'each row is counted once');
    t.equal((await countRows(mongo, await findPerson(mongo, id))).size, 0);
    t.match(await attempts(mongo).findOne({ _id: attemptId }), { studentId: /^erased-/, totalScore: 1 });
    const lines = await mongo.db.collection(OPERATOR_AUDIT).countDocuments({ subject: await tombstoneId(mongo, id) });
    t.equal(lines, 1, 'one line in the audit');
  }
});
