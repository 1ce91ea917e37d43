import t, { type Test } from 'tap';
import { type Adapter, Paused, Permanent, Retryable, Unreachable } from '#infra/channels/channel.ts';
import { replayDead } from '#infra/mongo/mailbox/dead-letters.ts';
import {
  deliveryAttempts,
  notificationEvents,
  notifications,
  preferences,
} from '#infra/mongo/notification/collections.ts';
import { INTERRUPTED } from '#infra/mongo/notification/delivery-attempts.ts';
import { patchPreferences } from '#infra/mongo/notification/preferences.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { Channel, DeliveryAttempt } from '#shared/notification/delivery.ts';
import { newEvent } from '#shared/notification/event.ts';
import { testKernel, testWorkerDeps, withStep } from '#testing/actors/test-kernel.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { watchFilters } from '#testing/stores/plans.ts';
import { gate } from '#testing/until.ts';
import type { Actor } from '#workers/actor.ts';
import type { RunResult } from '#workers/life.ts';
import { runCommand } from '#workers/run-command.ts';
import { deliveryActor } from './actor.ts';

type Send = Adapter['send'];

interface Scene {
  mongo: TestMongo;
  /** Returns an actor whose `webhook` channel delivers with `send`. */
  actor(send: Send): Actor;
  run(actor: Actor, job: Command, workerId?: string): Promise<RunResult>;
  /** Returns the attempt rows of this job, oldest first. */
  rows(job: Command): Promise<DeliveryAttempt[]>;
}

async function setUp(t: Test): Promise<Scene> {
  return sceneOf(await openTestMongo(t));
}

function sceneOf(mongo: TestMongo): Scene {
  const deps = testWorkerDeps(mongo, { NOTIFICATION_DELIVERY_RETRY_BASE_MS: '2000' });
  return {
    mongo,
    actor: (send) =>
      deliveryActor(deps, new Map<Channel, Adapter>([['webhook', { channel: 'webhook', provider: 'p', send }]])),
    run: (actor, job, workerId = 'worker-1') => runCommand(testKernel(mongo, { workerId }), actor, job),
    rows: (job) =>
      deliveryAttempts(mongo)
        .find({ notificationId: job.subject }, { sort: { _id: 1 } })
        .toArray(),
  };
}

const taken: Send = async () => ({ providerId: 'p-1' });
const mustNot: Send = async () => {
  throw new Permanent('the adapter was called');
};

t.test('a delivery attempt row is written before the call and ended with its job', async (t) => {
  const { mongo, actor, run, rows } = await setUp(t);
  const job = await postDelivery(mongo, { notification: { type: 'SUPPORT_TICKET_REPLY', isSupport: true } });
  const seen: DeliveryAttempt[] = [];
  const send: Send = async (given) => {
    t.match(given, { deliveryJobId: job._id, channel: 'webhook', notification: { id: job.subject } });
    t.notOk('place' in given.notification, 'internal fields are not sent');
    seen.push(...(await rows(job)));
    return { providerId: 'p-1' };
  };
  t.equal(await run(actor(send), job), 'done');
  const begun = {
    _id: `${job._id}:1`,
    notificationId: job.subject,
    channel: 'webhook',
    provider: 'p',
    attempt: 1,
  };
  t.match(seen, [{ ...begun, status: 'QUEUED', providerId: null, isSupport: true, organizationId: 'org-1' }]);
  t.match(await rows(job), [{ ...begun, status: 'SENT', providerId: 'p-1', nextRetryAt: null, error: null }]);
  t.match(await again(mongo, job), { status: 'SENT', result: { providerId: 'p-1' } });
});

t.test(
  'a failed delivery attempt states when the next one is due; the last is a dead letter, which a replay runs again',
  async (t) => {
    const { mongo, actor, run, rows } = await setUp(t);
    const job = await postDelivery(mongo, { maxAttempts: 3 });
    const waits = [undefined, 3_600_000];
    const failing = actor(async () => {
      const afterMs = waits.shift();
      throw new Retryable('busy', afterMs === undefined ? {} : { afterMs });
    });
    for (const n of [1, 2]) {
      const before = Date.now();
      t.equal(await run(failing, job), 'retried');
      const [row, resting] = [(await rows(job)).at(-1), await again(mongo, job)];
      t.match(row, { _id: `${job._id}:${n}`, status: 'FAILED', attempt: n, error: 'busy' });
      t.strictSame(row?.nextRetryAt, resting.nextRunAt, 'the due time of the next delivery attempt');
      // The base is 2 s, and jitter only lengthens it. The second time, the receiver requested one hour.
      t.ok(resting.nextRunAt.getTime() - before >= (n === 1 ? 2_000 : 3_590_000), 'the job backs off');
      await expire(mongo, job);
    }
    t.equal(await run(failing, job), 'dead');
    const last = { status: 'DEAD_LETTERED', attempt: 3, nextRetryAt: null, error: 'busy' } as const;
    t.match((await rows(job)).at(-1), last);
    const dead = await again(mongo, job);
    t.match(dead, { status: 'DEAD', lastError: { fingerprint: 'Retryable: busy' } });

    t.ok(await replayDead(mongo, dead, { operator: 'op', reason: 'it answers again', now: Date.now() }));
    t.equal(await run(actor(taken), job), 'done');
    t.match(await rows(job), [{ status: 'FAILED' }, { status: 'FAILED' }, last, { status: 'SENT', attempt: 1 }]);
  },
);

t.test('a permanent refusal by the provider makes the job a dead letter at once', async (t) => {
  const { mongo, actor, run, rows } = await setUp(t);
  const job = await postDelivery(mongo);
  t.equal(await run(actor(mustNot), job), 'dead');
  t.match(await again(mongo, job), { status: 'DEAD', attempts: 1 });
  t.match(await rows(job), [{ status: 'DEAD_LETTERED', nextRetryAt: null, error: 'the adapter was called' }]);
});

t.test('a paused provider spends no attempt and leaves no attempt row', async (t) => {
  const { mongo, actor, run, rows } = await setUp(t);
  const job = await postDelivery(mongo, { maxAttempts: 1 });
  const paused = actor(async () => {
    throw new Paused('the push service is paused', 30_000);
  });
  for (let n = 0; n < 2; n++) {
    const before = Date.now();
    t.equal(await run(paused, job), 'failed');
    const waiting = await again(mongo, job);
    t.match(waiting, { status: 'PENDING', attempts: 0, lastError: { message: 'the push service is paused' } });
    t.ok(waiting.nextRunAt.getTime() - before > 29_000, 'it waits for the pause');
    t.strictSame(await rows(job), []);
    await expire(mongo, job);
  }
  t.equal(await run(actor(taken), job), 'done');
  t.match(await rows(job), [{ status: 'SENT', attempt: 1 }]);
});

t.test('any error of an adapter spends the attempt, even a network fault', async (t) => {
  const { mongo, actor, run, rows } = await setUp(t);
  const job = await postDelivery(mongo);
  const resets = actor(async () => {
    throw Object.assign(new Error('reset'), { code: 'ECONNRESET' });
  });
  t.equal(await run(resets, job), 'retried');
  t.match(await again(mongo, job), { status: 'PENDING', attempts: 1 });
  t.match(await rows(job), [{ status: 'FAILED', error: 'reset' }]);
});

t.test(
  'a notification that is muted, disabled by type or deleted is suppressed for good, without an attempt row',
  async (t) => {
    const { mongo, actor, run, rows } = await setUp(t);
    const mute = (_id: string, until: number) => ({
      _id,
      enabledTypes: {},
      mutedUntil: new Date(until),
      updatedAt: null,
    });
    const disable = (_id: string, type: string) => ({ ...mute(_id, 0), enabledTypes: { [type]: false } });
    const event = newEvent(
      { preferenceType: 'OF_EVENT' },
      { id: 'event-1', now: new Date(), created: 1, organizationId: null },
    );
    await notificationEvents(mongo).insertOne(event);
    await preferences(mongo).insertMany([
      mute('muted', Date.now() + 3_600_000),
      mute('over', Date.now() - 1_000),
      disable('own', 'GRADE_RELEASED'),
      disable('named', 'NAMED'),
      disable('event', 'OF_EVENT'),
    ]);
    await patchPreferences(mongo, 'odd', { enabledTypes: { '$a.b %24': false }, mutedUntil: undefined });
    const cases = [
      { reason: 'MUTED', row: { userId: 'muted' } },
      { reason: 'TYPE_DISABLED', row: { userId: 'own' } },
      { reason: 'TYPE_DISABLED', row: { userId: 'named', preferenceType: 'NAMED' } },
      { reason: 'TYPE_DISABLED', row: { userId: 'event', preferenceType: 'NAMED', fanOutId: 'event-1' } },
      { reason: 'TYPE_DISABLED', row: { userId: 'odd', type: '$a.b %24' } },
      { reason: 'DELETED', row: { place: 'DELETED' } },
      { reason: null, row: { userId: 'odd', type: '$a' } },
      { reason: null, row: { userId: 'over' } },
      { reason: null, row: { userId: 'own', preferenceType: 'NAMED' } },
      { reason: null, row: { userId: 'named', preferenceType: 'NAMED', fanOutId: 'event-1' } },
      { reason: null, row: { place: 'fan-out-1', fanOutId: 'fan-out-1' } },
    ];
    for (const { reason, row } of cases) {
      const job = await postDelivery(mongo, { notification: row });
      const told = JSON.stringify(row);
      t.equal(await run(actor(reason === null ? taken : mustNot), job), 'done', told);
      const status = reason === null ? 'SENT' : 'SUPPRESSED';
      t.match(await again(mongo, job), { status, result: reason === null ? {} : { reason } }, told);
      t.equal((await rows(job)).length, reason === null ? 1 : 0, told);
    }
    const gone = await postDelivery(mongo);
    await notifications(mongo).deleteOne({ _id: gone.subject });
    t.equal(await run(actor(mustNot), gone), 'done');
    const left = await again(mongo, gone);
    t.match(left, { status: 'SUPPRESSED', result: { reason: 'GONE' } });
    t.strictSame(left?.body, { notificationId: gone.subject, channel: 'webhook' }, 'it forgets its user');
  },
);

t.test('a user who turns a channel off gets nothing more over it, and everything over the others', async (t) => {
  const { mongo, run, rows } = await setUp(t);
  const deps = testWorkerDeps(mongo);
  const both = (send: Send) =>
    deliveryActor(
      deps,
      new Map(
        (['webhook', 'email'] as const).map((channel) => [channel, { channel, provider: 'p', send } satisfies Adapter]),
      ),
    );
  const notification = { userId: 'choosy' };
  const jobs = [
    await postDelivery(mongo, { channel: 'webhook', notification }),
    await postDelivery(mongo, { channel: 'email', notification }),
  ] as const;
  await patchPreferences(mongo, 'choosy', { enabledTypes: {}, mutedUntil: undefined, channels: { email: false } });
  for (const job of jobs) t.equal(await run(both(taken), job), 'done');
  t.match(await again(mongo, jobs[0]), { status: 'SENT' });
  t.match(await again(mongo, jobs[1]), { status: 'SUPPRESSED', result: { reason: 'CHANNEL_DISABLED' } });
  t.strictSame(await rows(jobs[1]), []);
});

t.test('a user who cannot be reached is no failed attempt: the job is suppressed with the reason', async (t) => {
  const { mongo, actor, run, rows } = await setUp(t);
  const job = await postDelivery(mongo);
  const unreachable = actor(async () => {
    throw new Unreachable('NO_ADDRESS');
  });
  t.equal(await run(unreachable, job), 'done');
  t.match(await again(mongo, job), { status: 'SUPPRESSED', result: { reason: 'NO_ADDRESS' } });
  t.strictSame(await rows(job), []);
});

t.test(
  'a notification deleted between the first check and the call is suppressed, and its attempt row is deleted',
  async (t) => {
    const { mongo, actor, run, rows } = await setUp(t);
    const job = await postDelivery(mongo);
    const sends = actor(mustNot);
    const meanwhile = withStep(sends, (given, real) =>
      real({
        ...given,
        async checkpoint(progress, effects) {
          await given.checkpoint(progress, effects);
          t.match(await rows(job), [{ status: 'QUEUED' }]);
          await notifications(mongo).updateOne({ _id: job.subject }, { $set: { place: 'DELETED' } });
        },
      }),
    );
    t.equal(await run(meanwhile, job), 'done');
    t.match(await again(mongo, job), { status: 'SUPPRESSED', result: { reason: 'DELETED' } });
    t.strictSame(await rows(job), []);
  },
);

t.test('the next delivery attempt ends the row of a vanished worker, and the late worker writes nothing', async (t) => {
  const { mongo, actor, run, rows } = await setUp(t);
  const [called, go] = [gate(), gate()];
  const hangs = actor(async () => {
    called.open();
    await go.opened;
    return { providerId: 'too late' };
  });
  const job = await postDelivery(mongo);
  const late = run(hangs, job, 'late');
  await called.opened;
  await expire(mongo, job);
  t.equal(await run(actor(taken), job, 'next'), 'done');
  const ended = [
    { _id: `${job._id}:1`, status: 'FAILED', error: INTERRUPTED, nextRetryAt: null, attempt: 1 },
    { _id: `${job._id}:2`, status: 'SENT', providerId: 'p-1', attempt: 2 },
  ] as const;
  t.match(await rows(job), ended);
  go.open();
  t.equal(await late, 'fenced');
  t.match(await rows(job), ended, 'the late worker writes nothing');
});

t.test('a suppressed job also ends the row of an interrupted delivery attempt', async (t) => {
  const { mongo, actor, run, rows } = await setUp(t);
  const called = gate();
  const vanishes = actor(() => {
    called.open();
    return new Promise(() => undefined);
  });
  const job = await postDelivery(mongo);
  void run(vanishes, job, 'victim');
  await called.opened;
  await expire(mongo, job);
  await notifications(mongo).updateOne({ _id: job.subject }, { $set: { place: 'DELETED' } });
  t.equal(await run(actor(mustNot), job, 'next'), 'done');
  t.match(await rows(job), [{ status: 'FAILED', error: INTERRUPTED }]);
});

t.test('a delivery that is cut short is snoozed without spending an attempt', async (t) => {
  const { mongo, actor, rows } = await setUp(t);
  const job = await postDelivery(mongo);
  const kernel = testKernel(mongo);
  const cut = actor(async (_job, { signal }) => {
    kernel.halt.abort(new Error('the process is stopping'));
    throw signal.reason;
  });
  t.equal(await runCommand(kernel, cut, job), 'failed');
  t.match(await again(mongo, job), { status: 'PENDING', attempts: 0, lockedUntil: null });
  t.equal(await runCommand(testKernel(mongo), actor(taken), job), 'done');
  t.match(await rows(job), [
    { status: 'FAILED', error: INTERRUPTED, attempt: 1 },
    { status: 'SENT', attempt: 1 },
  ]);
});

t.test('a delivery reads and writes single documents only', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  const { actor, run } = sceneOf(mongo);
  await preferences(mongo).insertOne({ _id: 'picky', enabledTypes: { X: false }, mutedUntil: null, updatedAt: null });
  const job = await postDelivery(mongo, { notification: { userId: 'picky', fanOutId: 'event-1' } });
  const fails = actor(async () => {
    throw new Error('busy');
  });
  t.equal(await run(fails, job), 'retried');
  await expire(mongo, job);
  t.equal(await run(actor(taken), job), 'done');
  const filters = [...seen.values()];
  for (const { shape } of filters) t.comment(shape);
  t.ok(filters.length >= 8, `${filters.length} different filters were seen`);
  t.strictSame(
    filters.filter(({ isPointRead }) => !isPointRead).map(({ shape }) => shape),
    [],
  );
});
