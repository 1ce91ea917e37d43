import { existsSync } from 'node:fs';
import t from 'tap';
import { BROADCASTS } from './broadcasts.ts';
import { broadcasts, faultyRoutes, unlistedBroadcasts, unseenBroadcasts } from './judge.ts';
import type { CountedRoute } from './route-counts.ts';

const route = (change: Partial<CountedRoute> = {}): CountedRoute => {
  const sent = { collection: 'notifications', command: 'find', reach: 'every', shape: '$or(a|b), place $in' } as const;
  return { ...sent, file: 'shared/infra/mongo/notification/inbox.ts', count: 3, ...change };
};
const REASON = {
  why: 'an ADMIN lists all inboxes',
  rate: 'a page of an ADMIN',
  files: ['shared/infra/mongo/notification/inbox.ts'],
};

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
  t.strictSame(unseenBroadcasts([route({ shape: '' })], listed), [
    'notifications find {_id} in shared/infra/mongo/notification/inbox.ts',
  ]);
});

t.test('a listed statement of another file is refused, and names the files that may send it', async (t) => {
  const listed = broadcasts(REASON, ['notifications find {_id}']);
  const elsewhere = route({ shape: '_id', file: 'api/notification/intake.ts' });
  t.strictSame(unlistedBroadcasts([elsewhere], listed), [
    'notifications find {_id} in api/notification/intake.ts (3), listed for shared/infra/mongo/notification/inbox.ts',
  ]);
  const both = [...listed, ...broadcasts({ ...REASON, files: [elsewhere.file] }, ['notifications find {_id}'])];
  t.strictSame(unlistedBroadcasts([elsewhere, route({ shape: '_id' })], both), []);
  t.strictSame(unseenBroadcasts([elsewhere], both), [
    'notifications find {_id} in shared/infra/mongo/notification/inbox.ts',
  ]);
});

t.test('a statement that a cluster refuses or sends in turn is reported, and no list permits it', async (t) => {
  const faulty = [
    route({ reach: 'refused', command: 'update', shape: '_id' }),
    route({ reach: 'in turn', shape: 'a' }),
  ];
  t.strictSame(faultyRoutes([...faulty, route(), route({ reach: 'few' })]), [
    'notifications find {a} in shared/infra/mongo/notification/inbox.ts (3): an ordered batch over several shards',
    'notifications update {_id} in shared/infra/mongo/notification/inbox.ts (3): a write of one document that does not name one shard, or of several that sets the shard key',
  ]);
});

t.test('each listed broadcast names existing files', async (t) => {
  const files = new Set(BROADCASTS.flatMap((listed) => listed.files));
  t.strictSame(
    [...files].filter((file) => !existsSync(file)),
    [],
  );
});
