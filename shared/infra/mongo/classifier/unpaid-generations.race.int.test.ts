import t from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { REPLAY_MS } from '#shared/classifier/generation.ts';
import { DAY } from '#shared/kernel/time.ts';
import { ageGeneration, expireGenerations, generationOf, postSettlement } from '#testing/stored/stored-generations.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { generations } from './collections.ts';
import { closeOverdueSettlement, overdueSettlements } from './unpaid-generations.ts';

const mongo = await openTestMongo(t);

/** Ends an overdue settlement while an erasure replaces the key of its generation. */
async function closeDuringErasure(on: Mongo, previewId: string) {
  let times = 0;
  const db = tappedDb(on, (method, name, collection) => {
    if (name !== 'findOneAndUpdate' || collection !== generations(on).collectionName) return undefined;
    return async (...args) => {
      times += 1;
      if (times === 1) await generations(on).updateOne({ _id: previewId }, { $set: { key: `erased:${previewId}` } });
      return method(...args);
    };
  });
  const [overdue] = await overdueSettlements(mongo, Date.now() + REPLAY_MS + DAY, 1);
  if (overdue === undefined) throw new Error('no settlement is overdue');
  return closeOverdueSettlement({ ...on, db }, overdue);
}

t.test('a paid settlement becomes DONE, not dead, while an erasure replaces the key of its generation', async (t) => {
  const command = await postSettlement(mongo);
  await generations(mongo).updateOne({ _id: command.subject }, { $set: { state: 'SETTLED' } });
  t.equal(await closeDuringErasure(mongo, command.subject), 'done');
  t.match(await mailboxOf(mongo, 'settlement').findOne({ _id: command._id }), { status: 'DONE' });
});

t.test('an unpaid answer is closed under its new key, together with its command', async (t) => {
  const command = await postSettlement(mongo);
  await expireGenerations(mongo);
  await ageGeneration(mongo, command.subject);
  t.equal(await closeDuringErasure(mongo, command.subject), 'dead');
  t.match(await generationOf(mongo, command), { closed: 'EXPIRED', key: `erased:${command.subject}` });
});
