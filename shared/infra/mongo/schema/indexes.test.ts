import t from 'tap';
import { EVENT_QUEUES } from '#shared/kernel/command.ts';
import { INDEXES } from './indexes.ts';

t.test('commands expire only if they are rejected, or events out that are done', async (t) => {
  const expiring = INDEXES.filter(
    ({ collection, options }) => collection === 'commands' && options?.expireAfterSeconds,
  );
  t.ok(expiring.every(({ keys }) => Object.keys(keys).join() === 'settledAt'));
  t.strictSame(
    expiring.map(({ options }) => [options?.partialFilterExpression, options?.expireAfterSeconds]),
    [[{ status: 'REJECTED' }, 7 * 86_400], ...EVENT_QUEUES.map((queue) => [{ queue, status: 'DONE' }, 30 * 86_400])],
  );
});
