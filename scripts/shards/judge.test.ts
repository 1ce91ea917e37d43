import t from 'tap';
import { broadcasts, unlistedBroadcasts, unseenBroadcasts } from './judge.ts';
import type { CountedRoute } from './route-counts.ts';

const route = (change: Partial<CountedRoute> = {}): CountedRoute => {
  const sent = { collection: 'notifications', command: 'find', reach: 'every', shape: '$or(a|b), place $in' } as const;
  return { ...sent, file: 'shared/infra/mongo/notification/inbox.ts', count: 3, ...change };
};
const REASON = { why: 'an ADMIN lists all inboxes', rate: 'a page of an ADMIN' };

t.test('a statement is listed as a test run prints it', async (t) => {
  const [line = ''] = unlistedBroadcasts([route()], []);
  const listed = broadcasts(REASON, [line.replace(/ in .*$/, '')]);
  t.match(listed, [{ ...REASON, collection: 'notifications', command: 'find', shape: '$or(a|b), place $in' }]);
  t.strictSame(unlistedBroadcasts([route()], listed), []);
  t.equal(unlistedBroadcasts([route({ shape: '_id' }), route({ reach: 'one', shape: 'userId' })], listed).length, 1);
  t.throws(() => broadcasts(REASON, ['notifications find']), /no statement: notifications find/);
});

t.test('a listed statement that nothing sent is reported', async (t) => {
  const listed = broadcasts(REASON, ['notifications find {_id}', 'notifications find {}']);
  t.strictSame(unseenBroadcasts([route({ shape: '' })], listed), ['notifications find {_id}']);
});
