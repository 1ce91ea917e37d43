import t from 'tap';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { openEventTails } from './event-tail.ts';
import { appendClientEvent } from './events.ts';

const LIMITS = { budgetMs: 5_000, now: Date.now };

t.test('an append returns its event, also from a reply that contains the whole document', async (t) => {
  const mongo = await openTestMongo(t);
  // If the driver resends a findAndModify that has already succeeded, MongoDB replies with the whole document.
  const db = tappedDb(mongo, (method, name) =>
    name !== 'findOneAndUpdate'
      ? undefined
      : (filter, update, options) => method(filter, update, { ...(options as object), projection: {} }),
  );
  const attempt = await storeAttempt(mongo, { deadlineAt: null });
  for (const through of [mongo, { ...mongo, db }]) {
    for (const metadata of ['{"n":1}', '{"n":2}']) {
      const write = { attempt, type: 'QUESTION_VIEW' as const, metadata };
      t.match(await appendClientEvent(through, openEventTails(through), write, LIMITS), {
        kind: 'appended',
        event: { metadata },
      });
    }
  }
});
