import t from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { countCommands } from '#scripts/bench/cold-front-door.ts';
import { gradingOrder } from '#shared/attempt/commands.ts';
import { newId } from '#shared/kernel/ids.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { claimCommand } from './claim.ts';
import { type CommandOf, newCommand } from './commands.ts';
import { openMailboxGroups } from './groups.ts';
import { mailboxOf, postCommand, readCommand } from './mailbox.ts';
import { LeaseLost } from './settle.ts';

const CLAIMANT = { queue: 'grading', workerId: 'worker-1', leaseMs: 60_000 } as const;
const DONE = { to: 'DONE', result: { attemptId: 'an attempt' } } as const;

/** Posts due commands and opens groups over a client that records its MongoDB commands. */
async function groupScene(t: Tap, count: number) {
  const stored = await openTestMongo(t);
  const now = Date.now() - 1_000;
  const posted: CommandOf<'grading'>[] = [];
  for (let n = 0; n < count; n++) {
    const command = newCommand({ ...gradingOrder(newId(now), undefined), maxAttempts: 10, now });
    posted.push((await postCommand(stored, command)).command);
  }
  const mongo = openMongo({ url: stored.url, database: stored.database, appName: 'counted' });
  t.teardown(() => mongo.close());
  const sent = countCommands(mongo);
  const groups = openMailboxGroups(mongo, CLAIMANT);
  return { stored, mongo, sent, groups, posted, ids: posted.map(({ _id }) => _id) };
}
type Tap = typeof t;

async function claimAll({ groups, ids }: Awaited<ReturnType<typeof groupScene>>): Promise<CommandOf<'grading'>[]> {
  const claims = await Promise.all(ids.map((id) => groups.claim({ id })));
  return claims.flatMap((claim) => (claim.kind === 'claimed' ? [claim.command] : []));
}

t.test('claims at the same time need two MongoDB commands, and their settlements one', async (t) => {
  const scene = await groupScene(t as Tap, 8);
  const claimed = await claimAll(scene);
  t.strictSame(scene.sent.taken(), ['update', 'find']);
  t.strictSame(
    claimed.map(({ _id, attempts, fence, workerId }) => ({ _id, attempts, fence, workerId })),
    scene.ids.map((_id) => ({ _id, attempts: 1, fence: 1, workerId: 'worker-1' })),
    'each caller gets its own command',
  );
  await Promise.all(claimed.map((command) => scene.groups.settle(command, DONE)));
  t.strictSame(scene.sent.taken(), ['update']);
  for (const id of scene.ids) {
    t.match(await readCommand(scene.stored, 'grading', id), {
      status: 'DONE',
      lockedUntil: null,
      ...DONE,
      to: undefined,
    });
  }
});

t.test('each claim of a group stores its own session and is decided by itself', async (t) => {
  const { stored, mongo, groups, ids } = await groupScene(t as Tap, 3);
  const [leased = '', spent = '', free = ''] = ids;
  await claimCommand(stored, { ...CLAIMANT, id: leased, workerId: 'rival' });
  await mailboxOf(stored, 'grading').updateOne({ _id: spent }, { $set: { attempts: 10 } });
  const sessions = [mongo.client.startSession(), mongo.client.startSession(), mongo.client.startSession()];
  t.teardown(() => Promise.all(sessions.map((session) => session.endSession())));
  const claims = await Promise.all(
    [...ids, 'unknown'].map((id, n) =>
      groups.claim({ id, ...(sessions[n] === undefined ? {} : { session: sessions[n] }) }),
    ),
  );
  t.match(
    claims.map(({ kind }) => kind),
    ['refused', 'dead', 'claimed', 'refused'],
  );
  const session = sessions[2]?.id?.id.toUUID().toHexString();
  t.match(await readCommand(stored, 'grading', free), { workerId: 'worker-1', session });
  t.match(await readCommand(stored, 'grading', leased), { workerId: 'rival' });
  t.match(await readCommand(stored, 'grading', spent), { status: 'DEAD', session: null });
});

t.test('a command that lost its lease writes nothing, and the others of its group are settled', async (t) => {
  const scene = await groupScene(t as Tap, 3);
  const claimed = await claimAll(scene);
  const [lost = ''] = scene.ids;
  await mailboxOf(scene.stored, 'grading').updateOne({ _id: lost }, { $set: { fence: 2, workerId: 'rival' } });
  const ends = await Promise.allSettled(claimed.map((command) => scene.groups.settle(command, DONE)));
  t.ok(ends[0]?.status === 'rejected' && ends[0].reason instanceof LeaseLost);
  t.match(await readCommand(scene.stored, 'grading', lost), { status: 'PENDING', workerId: 'rival', fence: 2 });
  for (const id of scene.ids.slice(1)) t.match(await readCommand(scene.stored, 'grading', id), { status: 'DONE' });
});

t.test('ends that differ keep their own state in one group', async (t) => {
  const scene = await groupScene(t as Tap, 3);
  const [done, again, dead] = await claimAll(scene);
  if (done === undefined || again === undefined || dead === undefined) throw new Error('not claimed');
  scene.sent.taken();
  await Promise.all([
    scene.groups.settle(done, DONE),
    scene.groups.settle(again, { to: 'AGAIN', inMs: 60_000, unspent: true, error: null }),
    scene.groups.settle(dead, { to: 'DEAD', error: { fingerprint: 'Error: poison', message: 'poison' } }),
  ]);
  t.strictSame(scene.sent.taken(), ['update']);
  t.match(await readCommand(scene.stored, 'grading', done._id), { status: 'DONE', attempts: 1 });
  t.match(await readCommand(scene.stored, 'grading', again._id), { status: 'PENDING', attempts: 0, lockedUntil: null });
  t.match(await readCommand(scene.stored, 'grading', dead._id), { status: 'DEAD', lastError: { message: 'poison' } });
});

t.test('a failed group leaves no command claimed, and its commands are then claimed one by one', async (t) => {
  const scene = await groupScene(t as Tap, 3);
  const { mongo, groups, sent } = scene;
  const collection = mongo.db.collection.bind(mongo.db);
  let failures = 1;
  mongo.db.collection = ((name: string) => {
    const found = collection(name);
    const find = found.find.bind(found);
    // The update of the group has committed; the read of its results fails.
    found.find = ((...args: Parameters<typeof find>) => {
      if (failures-- > 0) throw new Error('the read fails');
      return find(...args);
    }) as typeof found.find;
    return found;
  }) as typeof mongo.db.collection;
  const ends = await Promise.allSettled(scene.ids.map((id) => groups.claim({ id })));
  t.ok(ends.every(({ status }) => status === 'rejected'));
  for (const id of scene.ids) {
    t.match(await readCommand(scene.stored, 'grading', id), { attempts: 0, lockedUntil: null, workerId: null });
  }
  sent.taken();
  t.equal((await claimAll(scene)).length, 3);
  t.strictSame(sent.taken(), ['findAndModify', 'findAndModify', 'findAndModify']);
});
