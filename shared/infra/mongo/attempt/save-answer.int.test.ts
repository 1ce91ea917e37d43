import t from 'tap';
import type { AttemptKey } from '#shared/attempt/attempt.ts';
import { sampleAnswer } from '#testing/stored/sample-attempt.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { saveAnswer, saveAnswerWithRows } from './save-answer.ts';

t.test(
  'the first save creates version 1, each later save adds 1, and the attempt counts the stored bytes',
  async (t) => {
    const mongo = await openTestMongo(t);
    const deadlineAt = new Date(Date.now() + 3_600_000);
    const stored = sampleAnswer({ selected: ['a'], serverVersion: 3, clientVersion: 2, bytes: 100 });
    const write = (attempt: AttemptKey) => ({
      attempt,
      paperIndex: 0,
      content: { selected: ['b'] },
      bytes: 18,
      clientVersion: 0,
      metadata: (serverVersion: number) => ({ serverVersion }),
    });
    const saves = {
      async 'one command'(attempt: AttemptKey) {
        const result = await saveAnswer(mongo, write(attempt));
        return result.kind === 'saved' ? { kind: result.kind, attempt: result.stored.whole() } : result;
      },
      'a transaction': (attempt: AttemptKey) => saveAnswerWithRows(mongo, write(attempt), 5_000, Date.now),
    };
    for (const [how, save] of Object.entries(saves)) {
      const first = await save(await storeAttempt(mongo, { answers: {}, deadlineAt }));
      t.match(first, { kind: 'saved', attempt: { answers: { q0: { serverVersion: 1 } }, answerBytes: 18 } }, how);
      const before = await storeAttempt(mongo, { answers: { q0: stored }, answerBytes: 150, deadlineAt });
      const later = await save(before);
      t.match(later, { kind: 'saved', attempt: { answers: { q0: { serverVersion: 4 } }, answerBytes: 68 } }, how);
    }
  },
);
