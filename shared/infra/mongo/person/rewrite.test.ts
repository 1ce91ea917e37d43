import type { ClientSession } from 'mongodb';
import t from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { REWRITES } from './rewrite.ts';

const KEYS = { id: 'student-1', pseudonym: 'erased-1' };
const AT = { now: new Date(), session: {} as ClientSession };
/** A connection that nothing may use. */
const UNUSED = {} as Mongo;

t.test('a row that was located without its shard key is refused before the first statement', async (t) => {
  await t.rejects(REWRITES.seat(UNUSED, { _id: '["link-1","student-1"]' }, KEYS, AT), /without its linkId/);
  await t.rejects(REWRITES.generation(UNUSED, { _id: 'preview-1' }, KEYS, AT), /without its key/);
});
