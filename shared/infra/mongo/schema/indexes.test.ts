import t from 'tap';
import { EVENT_QUEUES } from '#shared/kernel/command.ts';
import { type DeclaredIndex, INDEXES } from './indexes.ts';
import { DECLARATIONS } from './personal-fields.ts';
import { PLACEMENTS, type Placement, refusedOnShards } from './shard-keys.ts';

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

t.test('a sharded cluster accepts every unique index', (t) => {
  t.same(refusedOnShards(INDEXES), []);
  t.end();
});

t.test('a unique index that begins with other fields than the shard key is found', (t) => {
  const unique = (keys: DeclaredIndex['keys']): DeclaredIndex => {
    return { collection: 'attempts', name: Object.keys(keys).join(), keys, options: { unique: true } };
  };
  const refused = (placement: Placement, ...keys: DeclaredIndex['keys'][]) =>
    refusedOnShards(keys.map(unique), { ...PLACEMENTS, attempts: placement }).map(({ name }) => name);
  const [a, ab, ba] = [{ a: 1 }, { a: 1, b: 1 }, { b: 1, a: 1 }] as const;
  t.same(refused({ shardKey: ['a'] }, a, ab, ba), ['b,a']);
  t.same(refused({ shardKey: ['a', 'b'] }, a, ab, ba), ['a', 'b,a']);
  t.same(refused({ shardKey: ['_id'] }, a, { _id: 1, a: 1 }), ['a']);
  t.same(refused({ shardKey: ['a'] }, { _id: 1 }), [], 'MongoDB accepts `_id` first under every key');
  t.same(refused({ rows: 1, why: 'it is small' }, a, ab, ba), []);
  const plain: DeclaredIndex = { collection: 'attempts', name: 'plain', keys: ba };
  t.same(refusedOnShards([plain], { ...PLACEMENTS, attempts: { shardKey: ['a'] } }), []);
  t.end();
});

t.test('each field of a shard key is a field of its rows', (t) => {
  for (const [collection, { fields }] of DECLARATIONS) {
    const placement = PLACEMENTS[collection];
    if (!('shardKey' in placement)) continue;
    for (const field of placement.shardKey) t.ok(field === '_id' || field in fields, `${collection}: ${field}`);
  }
  t.end();
});
