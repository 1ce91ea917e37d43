import { setTimeout as delay } from 'node:timers/promises';
import type { Test } from 'tap';
import { type Adapter, type DeliveryJob, Permanent, Retryable, Unreachable } from '#infra/channels/channel.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type Channel, deliveryJobId } from '#shared/notification/delivery.ts';
import { notificationView } from '#shared/notification/notification.ts';
import type { Behaviour, FaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { freshNotification } from '#testing/stored/stored-notifications.ts';
import { until } from '#testing/until.ts';

export interface AdapterSubject {
  adapter: Adapter;
  /** Returns the `deliveryJobId` of every send that the provider accepted, repeats included. */
  taken(): string[];
  /** Secrets that no error message may contain. */
  secrets: readonly string[];
  /** The adapter's provider if it is called over HTTP. `timeOut` ends the time limit of each send that is under way. */
  http?: {
    receiver: FaultReceiver;
    timeOut(): void;
    /** Statuses by which the provider states that the user is not reachable any more. */
    unreachable?: readonly number[];
  };
}

/** A title that would reveal content in an error message. */
const CONTENT = 'Điểm của em là 9,25';

export function sampleJob(channel: Channel): DeliveryJob {
  const id = newId();
  const row = freshNotification({ _id: id, title: CONTENT, content: CONTENT, data: '{"score":9.25}' });
  return { deliveryJobId: deliveryJobId(id, channel), channel, notification: notificationView(row) };
}

/** A fault of a provider, the error that the adapter must throw for it, and whether the send ends with its time limit. */
type Fault = {
  name: string;
  behaviour: Behaviour;
  thrown: typeof Retryable | typeof Permanent;
  afterMs?: number;
  timesOut?: true;
};

const answer = (status: number, headers: Record<string, string> = {}): Behaviour => {
  return { kind: 'answer', status, headers, body: `no: ${CONTENT}` };
};
const retryable = (name: string, behaviour: Behaviour, more: Partial<Fault> = {}): Fault => {
  return { name, behaviour, thrown: Retryable, ...more };
};
const permanent = (name: string, behaviour: Behaviour): Fault => ({ name, behaviour, thrown: Permanent });
const afterWait = (wait: string) => answer(429, { 'retry-after': wait });

const FAULTS: readonly Fault[] = [
  retryable('hangs', { kind: 'hang' }, { timesOut: true }),
  retryable('cuts its head', { kind: 'cut-head' }),
  retryable('cuts its body', { kind: 'cut-body' }),
  retryable('drips for ever', { kind: 'drip' }, { timesOut: true }),
  ...[408, 500, 502, 503, 504].map((status) => retryable(`answers ${status}`, answer(status))),
  retryable('answers 429', afterWait('7'), { afterMs: 7_000 }),
  retryable('answers 503 with a wait', answer(503, { 'retry-after': '90' }), { afterMs: 90_000 }),
  retryable('requests a wait of days', afterWait('900000'), { afterMs: 3_600_000 }),
  retryable('sends an invalid Retry-After', afterWait('soon')),
  ...[400, 401, 403, 404, 410, 413, 422, 425].map((status) =>
    permanent(`answers ${status}`, answer(status, { 'retry-after': '7' })),
  ),
  ...[301, 302, 303, 307, 308].map((status) =>
    permanent(`redirects with ${status}`, answer(status, { location: '/elsewhere' })),
  ),
];

/** Tests that an adapter fulfils its interface (`shared/infra/channels/channel.ts`). */
export async function adapterSuite(t: Test, subject: AdapterSubject): Promise<void> {
  const { adapter } = subject;
  const quiet = () => ({ signal: new AbortController().signal });

  await t.test('the adapter sends a job under its own id, and a repeat under the same id', async (t) => {
    const job = sampleJob(adapter.channel);
    const before = JSON.stringify(job);
    for (const times of [1, 2]) {
      const { providerId } = await adapter.send(job, quiet());
      t.ok(providerId === null || typeof providerId === 'string');
      t.strictSame(subject.taken(), Array(times).fill(job.deliveryJobId));
    }
    t.equal(JSON.stringify(job), before, 'the job is unchanged');
    t.match(adapter.provider, /^[a-z][a-z0-9-]*$/);
  });

  await t.test('the adapter makes no call if its signal is already aborted', async (t) => {
    const taken = subject.taken().length;
    const reason = new Error('the process is stopping');
    await t.rejects(adapter.send(sampleJob(adapter.channel), { signal: AbortSignal.abort(reason) }), reason);
    t.equal(subject.taken().length, taken);
  });

  if (subject.http !== undefined) await overHttp(t, subject, subject.http);
}

async function overHttp(
  t: Test,
  { adapter, secrets }: AdapterSubject,
  { receiver, timeOut, unreachable = [] }: NonNullable<AdapterSubject['http']>,
): Promise<void> {
  const sent = (signal = new AbortController().signal) =>
    adapter.send(sampleJob(adapter.channel), { signal }).then(
      () => 'taken',
      (error: unknown) => error,
    );

  await t.test('an abort during the call rejects with its reason, not as a fault of the provider', async (t) => {
    receiver.behaviour = { kind: 'hang' };
    const { length } = receiver.posts;
    const cut = new AbortController();
    const running = sent(cut.signal);
    await until('the call has arrived', () => receiver.posts.length > length);
    const reason = new Error('the process is stopping');
    cut.abort(reason);
    t.equal(await running, reason);
  });

  for (const fault of FAULTS.filter(
    ({ behaviour }) => behaviour.kind !== 'answer' || !unreachable.includes(behaviour.status),
  )) {
    await t.test(`the adapter throws ${fault.thrown.name} for a provider that ${fault.name}`, async (t) => {
      receiver.behaviour = fault.behaviour;
      const { length } = receiver.posts;
      const sending = sent();
      if (fault.timesOut) {
        await until('the call has arrived', () => receiver.posts.length > length);
        // Time for the adapter to read what the provider writes.
        await delay(100);
        timeOut();
      }
      const error = await sending;
      t.ok(error instanceof fault.thrown, String(error));
      if (error instanceof Retryable) t.equal(error.afterMs, fault.afterMs);
      t.equal(receiver.posts.length, length + 1, 'one call');
      // Everything that the log would write, causes included.
      const told = error instanceof Error ? `${error.message} ${error.stack} ${String(error.cause)}` : '';
      for (const secret of [CONTENT, ...secrets])
        t.notOk(told.includes(secret), 'the message contains neither content nor secrets');
    });
  }

  for (const status of unreachable) {
    await t.test(`the adapter throws Unreachable for a provider that answers ${status}`, async (t) => {
      receiver.behaviour = answer(status);
      t.ok((await sent()) instanceof Unreachable);
    });
  }

  await t.test('the adapter stops reading an endless body after a successful status', async (t) => {
    receiver.behaviour = { kind: 'flood' };
    t.equal(await sent(), 'taken');
    const written = receiver.flooded();
    t.ok(written < 16 * 1024 * 1024, `the provider wrote ${written} bytes before the adapter closed the connection`);
  });

  await t.test('the adapter accepts a successful status with any body', async (t) => {
    for (const status of [200, 201, 202, 204]) {
      receiver.behaviour = { kind: 'answer', status, ...(status === 204 ? {} : { body: '<not json' }) };
      t.equal(await sent(), 'taken', `${status}`);
    }
  });
}
