import t, { type Test } from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { newFromSnapshot } from '#shared/notification/snapshot.ts';
import { type Chance, openChance, scaled } from '#testing/chance.ts';
import { freshNotification, storeNotifications } from '#testing/stored/stored-notifications.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { fanOuts, notifications } from './collections.ts';
import {
  countUnread,
  findNotification,
  findPosition,
  type ListFilter,
  listNotifications,
  type WantedNotifications,
} from './inbox.ts';
import { deleteAll, deleteNotification, markAllRead, markRead } from './inbox-changes.ts';
import { putSnapshot } from './snapshots.ts';

const EVERYTHING: WantedNotifications = { userId: 'student-1', organizationId: null, filter: 'ALL', q: null };
const { signal } = new AbortController();

async function listed(mongo: Mongo, change: Partial<WantedNotifications>, page = { page: 1, limit: 100 }) {
  const { rows, total, unread } = await listNotifications(mongo, { ...EVERYTHING, ...change }, page);
  return { ids: rows.map(({ _id }) => _id), total, unread };
}

/** Stores a fan-out whose rows no reader sees until it is published. */
async function storeFanOut(mongo: Mongo, state: 'STAGING' | 'PUBLISHED'): Promise<string> {
  const _id = newId();
  await fanOuts(mongo).insertOne({
    _id,
    state,
    source: null,
    rows: 0,
    staged: 0,
    stageBy: new Date(),
    publishedAt: null,
  });
  return _id;
}

t.test('a list is ordered newest first, then by id, and each page contains the total', async (t) => {
  const mongo = await openTestMongo(t);
  const at = (n: number) => new Date(1_800_000_000_000 + Math.floor(n / 3));
  const rows = await storeNotifications(mongo, 10, (n) => ({
    _id: `n-${(n * 7) % 10}`,
    createdAt: at(n),
    isRead: n > 6,
  }));
  await storeNotifications(mongo, 3, (n) => ({ userId: 'another', createdAt: at(n) }));
  const newest = (a: Notification, b: Notification) =>
    b.createdAt.getTime() - a.createdAt.getTime() || (a._id < b._id ? 1 : -1);
  const order = rows.toSorted(newest).map(({ _id }) => _id);
  t.strictSame(await listed(mongo, {}), { ids: order, total: 10, unread: 7 });
  for (const page of [1, 2, 3, 4]) {
    const ids = order.slice((page - 1) * 4, page * 4);
    t.strictSame(await listed(mongo, {}, { page, limit: 4 }), { ids, total: 10, unread: 7 }, `page ${page}`);
  }
  t.match(await listed(mongo, { userId: null }), { total: 13, unread: 10 }, 'of all users');
});

t.test('each filter selects its rows, and the unread count ignores the filter', async (t) => {
  const mongo = await openTestMongo(t);
  const make = (change: Partial<Notification>) => freshNotification({ _id: newId(), ...change });
  const plain = make({ organizationId: 'org-1' });
  const read = make({ isRead: true, readAt: new Date(), title: 'Thư mời HỌP' });
  const support = make({ type: 'SUPPORT_TICKET_REPLY', content: 'Buổi họp lớp'.normalize('NFD') });
  const deleted = make({ place: 'DELETED', deletedAt: new Date() });
  const staged = make({ place: await storeFanOut(mongo, 'STAGING') });
  await notifications(mongo).insertMany([plain, read, support, deleted, staged]);
  for (const userId of ['student-1', null]) {
    const shows = async (change: Partial<WantedNotifications>, ...rows: Notification[]) => {
      const { ids, total, unread } = await listed(mongo, { userId, ...change });
      t.same([...ids].sort(), rows.map(({ _id }) => _id).sort(), JSON.stringify({ userId, ...change }));
      t.strictSame([total, unread], [rows.length, 2]);
    };
    await shows({}, plain, read, support);
    await shows({ filter: 'UNREAD' }, plain, support);
    await shows({ filter: 'READ' }, read);
    await shows({ filter: 'SUPPORT' }, support);
    await shows({ organizationId: 'org-1' }, plain);
    await shows({ organizationId: 'org-1', filter: 'READ' });
    await shows({ q: 'họp' }, read, support);
    for (const q of ['HỌP', 'ho\u0323p', 'mời H', 'mo\u031b\u0300i'])
      t.match(await listed(mongo, { userId, q, filter: 'READ' }), { total: 1 }, q);
    await shows({ q: 'họp', filter: 'UNREAD' }, support);
    await shows({ q: '.*' });
    await shows({ q: 'hop' });
  }
  t.equal(await countUnread(mongo, 'student-1'), 2);
  for (const [row, isSeen] of [
    [plain, true],
    [deleted, false],
    [staged, false],
  ] as const) {
    t.equal((await findNotification(mongo, row)) !== null, isSeen);
  }
  await fanOuts(mongo).updateOne({ _id: staged.place }, { $set: { state: 'PUBLISHED' } });
  t.match(await listed(mongo, {}), { total: 4, unread: 3 }, 'a published row is visible before it is moved');
  t.match(await findNotification(mongo, staged), { _id: staged._id });
});

t.test('a title that a keyboard typed in a mixed form is found in every form', async (t) => {
  const mongo = await openTestMongo(t);
  const title = 'Ki\u00ea\u0309m tra t\u00e2\u0323p trung';
  await storeNotifications(mongo, 1, () => ({ title }));
  for (const q of [
    title,
    ...['NFC', 'NFD'].map((form) => title.normalize(form)),
    'KIỂM',
    'tập tr',
    'ki\u1ebb\u0302m',
  ]) {
    t.match(await listed(mongo, { q }), { total: 1 }, q);
  }
  for (const q of ['kiêm', 'tâp', 'kie', 'tạp']) t.match(await listed(mongo, { q }), { total: 0 }, q);
});

t.test(
  'a reader who goes on from the last row sees each row once, whatever arrives or is deleted meanwhile',
  async (t) => {
    const mongo = await openTestMongo(t);
    const chance = openChance((line) => t.comment(line));
    const changed = () => ({
      createdAt: new Date(1e12 + chance.below(4)),
      isRead: chance.next() < 0.5,
      userId: chance.pick(USERS),
    });
    for (let round = 0; round < scaled(12, 100); round += 1) {
      const userId = chance.pick(['u1', null]);
      const filter = chance.pick(['ALL', 'UNREAD'] as const);
      await storeNotifications(mongo, 12, changed);
      const wanted = { ...EVERYTHING, userId, filter };
      const before = await listNotifications(mongo, wanted, { page: 1, limit: 100 });
      const deleted = new Set<string>();
      const seen: string[] = [];
      for (let after: string | null = null; ; ) {
        const from = after === null ? null : await findPosition(mongo, { _id: after, userId });
        t.equal(from === null, after === null, 'a deleted row keeps its place');
        const { rows, total, unread } = await listNotifications(mongo, wanted, {
          page: 1,
          limit: 3,
          ...(from !== null && { after: from }),
        });
        const whole = await listNotifications(mongo, wanted, { page: 1, limit: 1 });
        t.strictSame([total, unread], [whole.total, whole.unread], 'the totals are those of the whole list');
        seen.push(...rows.map(({ _id }) => _id));
        after = rows.at(-1)?._id ?? null;
        if (after === null) break;
        const gone = chance.pick([...rows, ...before.rows]);
        if ((await deleteNotification(mongo, gone)) !== null) deleted.add(gone._id);
        await storeNotifications(mongo, 1, () => ({ ...changed(), createdAt: new Date(1e12 + 9) }));
      }
      t.equal(new Set(seen).size, seen.length, 'none twice');
      t.strictSame(
        seen.filter((id) => !deleted.has(id)),
        before.rows.map(({ _id }) => _id).filter((id) => !deleted.has(id)),
        'none is left out, and none that arrived is added',
      );
      await notifications(mongo).deleteMany({});
    }
    const [row = freshNotification()] = await storeNotifications(mongo, 1, () => ({ userId: 'u1' }));
    t.equal(await findPosition(mongo, { _id: row._id, userId: 'u2' }), null, 'a row of another user');
    t.equal(await findPosition(mongo, { _id: 'unknown', userId: null }), null);
    const [staged = freshNotification()] = await storeNotifications(mongo, 1, () => ({ place: 'staging' }));
    t.equal(await findPosition(mongo, { _id: staged._id, userId: null }), null, 'a row that no reader has seen');
  },
);

t.test('a row keeps its first read time and is deleted once', async (t) => {
  const mongo = await openTestMongo(t);
  const [row = freshNotification()] = await storeNotifications(mongo, 1);
  const first = await markRead(mongo, row);
  t.match(first, { isRead: true, readAt: Date });
  const again = await Promise.all(Array.from({ length: 5 }, () => markRead(mongo, row)));
  for (const one of again) t.strictSame(one?.readAt, first?.readAt);
  const deletions = await Promise.all(Array.from({ length: 5 }, () => deleteNotification(mongo, row)));
  t.equal(deletions.filter((one) => one !== null).length, 1);
  t.match(await notifications(mongo).findOne({ _id: row._id }), {
    place: 'DELETED',
    deletedAt: Date,
    readAt: first?.readAt,
  });
  t.equal(await markRead(mongo, row), null, 'a deleted row is not read');
});

t.test('a row that is deleted before a concurrent read stays unread and is not returned', async (t) => {
  const mongo = await openTestMongo(t);
  const rows = await storeNotifications(mongo, 15);
  for (const row of rows) {
    const [read, deleted] = await Promise.all([markRead(mongo, row), deleteNotification(mongo, row)]);
    const stored = await notifications(mongo).findOne({ _id: row._id });
    t.match(stored, { place: 'DELETED', isRead: read !== null });
    t.equal(deleted?.isRead, read !== null, 'the deletion shows the row as it was last');
  }
});

t.test('counts equal a recount of the rows after any changes', async (t) => {
  const mongo = await openTestMongo(t);
  const chance = openChance((line) => t.comment(line));
  const staged: { fanOut: string; published: boolean }[] = [];
  for (const steps of Array.from({ length: scaled(6, 60) }, () => 8)) {
    for (let step = 0; step < steps; step++) await actOnInboxes(mongo, chance, staged);
    await compare(t, mongo, chance);
  }
});

const USERS = ['u1', 'u2', 'u3'];
const TYPES = ['GRADE_RELEASED', 'SUPPORT_TICKET_REPLY'];

async function actOnInboxes(
  mongo: Mongo,
  chance: Chance,
  staged: { fanOut: string; published: boolean }[],
): Promise<void> {
  const userId = chance.pick(USERS);
  const rows = await notifications(mongo).find({ userId, place: 'INBOX' }).toArray();
  const id = rows.length === 0 ? newId() : chance.pick(rows)._id;
  const random = () => ({
    userId,
    type: chance.pick(TYPES),
    isRead: chance.next() < 0.2,
    createdAt: new Date(1e12 + chance.below(50)),
  });
  switch (chance.below(8)) {
    case 0:
      await markRead(mongo, { _id: id, userId });
      break;
    case 1:
      await deleteNotification(mongo, { _id: id, userId });
      break;
    case 2:
      if (chance.next() < 0.3) await markAllRead(mongo, userId, signal);
      break;
    case 3:
      if (chance.next() < 0.2) await deleteAll(mongo, userId, signal);
      break;
    case 4: {
      const deletedAt = chance.next() < 0.3 ? new Date() : null;
      const snapshot = { ...random(), id, organizationId: null, title: 'S', content: '', readAt: null, deletedAt };
      await putSnapshot(mongo, snapshot, (first) => newFromSnapshot(first, { now: new Date(), organizationId: null }));
      break;
    }
    case 5: {
      const fanOut = await storeFanOut(mongo, 'STAGING');
      staged.push({ fanOut, published: false });
      await storeNotifications(mongo, 3, () => ({ ...random(), place: fanOut, fanOutId: fanOut }));
      break;
    }
    case 6: {
      const next = staged.find(({ published }) => !published);
      if (next === undefined) break;
      next.published = true;
      await fanOuts(mongo).updateOne({ _id: next.fanOut }, { $set: { state: 'PUBLISHED' } });
      break;
    }
    default:
      await storeNotifications(mongo, 1 + chance.below(4), random);
  }
}

/** Compares every filter, for one user and for all, with the rows themselves. */
async function compare(t: Test, mongo: Mongo, chance: Chance): Promise<void> {
  const published = await fanOuts(mongo).find({ state: 'PUBLISHED' }).toArray();
  const places = new Set(['INBOX', ...published.map(({ _id }) => _id)]);
  const rows = (await notifications(mongo).find().toArray()).filter(({ place }) => places.has(place));
  const shows: Record<ListFilter, (row: Notification) => boolean> = {
    ALL: () => true,
    UNREAD: ({ isRead }) => !isRead,
    READ: ({ isRead }) => isRead,
    SUPPORT: ({ type }) => type.startsWith('SUPPORT_'),
  };
  for (const userId of [chance.pick(USERS), null]) {
    const own = rows.filter((row) => userId === null || row.userId === userId);
    for (const filter of Object.keys(shows) as ListFilter[]) {
      const { total, unread } = await listed(mongo, { userId, filter });
      const wanted = { total: own.filter(shows[filter]).length, unread: own.filter(shows.UNREAD).length };
      t.strictSame({ total, unread }, wanted, `${filter} of ${userId}`);
    }
  }
}

t.test('every query of a list has a time limit, and its page and total agree', async (t) => {
  const mongo = await openTestMongo(t);
  await storeNotifications(mongo, 5, (n) => ({ _id: `n-${n}` }));
  let bounds: unknown[] = [];
  /** Returns page size and total if the count is wrong by `off`, as when rows come or go between the queries. */
  async function seen(off: number, page: { page: number; limit: number }) {
    bounds = [];
    const db = tappedDb(mongo, (method, name) => {
      if (name !== 'find' && name !== 'countDocuments') return undefined;
      const tapped = (...args: unknown[]) => {
        bounds.push((args[1] as { maxTimeMS?: number }).maxTimeMS);
        const result = method(...args);
        return name === 'find' ? result : result.then((count) => Number(count) + off);
      };
      return tapped as typeof method;
    });
    const { rows, total } = await listNotifications({ ...mongo, db }, { ...EVERYTHING, q: 'bài' }, page);
    return [rows.length, total];
  }
  t.strictSame(await seen(0, { page: 1, limit: 3 }), [3, 5]);
  t.strictSame(bounds, [5_000, 5_000, 5_000, 5_000], 'fan-outs, page, unread, total');
  t.strictSame(await seen(-5, { page: 1, limit: 3 }), [3, 3], 'never fewer than are shown');
  t.strictSame(await seen(2, { page: 2, limit: 3 }), [2, 5], 'the last page knows the total');
  t.strictSame(await seen(-1, { page: 1, limit: 10 }), [5, 5]);
  t.strictSame(await seen(1, { page: 9, limit: 3 }), [0, 6], 'beyond the last page only the count knows');
});
