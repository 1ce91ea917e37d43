import { MongoNetworkError } from 'mongodb';
import t from 'tap';
import type { Log } from '#infra/log/log.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { usageEvents } from './collections.ts';
import { openUsageRecorder } from './usage-recorder.ts';

const mongo = await openTestMongo(t);
const stored = usageEvents(mongo);
const NEVER = { retry: { baseMs: 3_600_000, capMs: 3_600_000 } };
const SOON = { retry: { baseMs: 1, capMs: 5 } };

const event = (attempt: number): UsageEvent => ({
  operation: 'essay-grade',
  organizationId: 'org-1',
  actorId: 'teacher-1',
  requestId: null,
  jobId: null,
  batchIndex: null,
  inputTokens: 1,
  outputTokens: 1,
  provider: 'mock',
  baseUrl: null,
  model: 'mock-1',
  latencyMs: 1,
  attempt,
  retryWaitMs: 0,
  circuit: 'closed',
  httpStatus: 200,
  outcome: 'success',
  errorCode: null,
  providerRequestId: null,
  promptVersion: '1',
  createdAt: new Date(),
});

type Rows = { attempt: number }[];

/** Returns a MongoDB whose first inserts fail: each in the way of its entry, before or after it stored the rows. */
function failing(...failures: ('before' | 'after' | 'part')[]) {
  let inserts = 0;
  const db = tappedDb(mongo, (method, name) => {
    if (name !== 'insertMany') return undefined;
    return async (rows, options) => {
      const failure = failures[inserts++];
      if (failure === 'after') await method(rows, options).catch(() => undefined);
      if (failure === 'part') await method((rows as Rows).slice(0, 1), options);
      if (failure !== undefined) throw new MongoNetworkError('connection closed');
      return method(rows, options);
    };
  });
  return { mongo: { ...mongo, db }, inserts: () => inserts };
}

/** Returns the attempts of all stored events, which are then deleted. */
async function takeStored(): Promise<number[]> {
  const rows = await stored.find().toArray();
  await stored.deleteMany({});
  return rows.map(({ attempt }) => attempt).sort((a, b) => a - b);
}

t.test('events of failed writes are stored by a later one, each once', async (t) => {
  const broken = failing('before', 'part', 'after');
  const { log, lines } = captureLines();
  const recorder = openUsageRecorder(broken.mongo, log, SOON);
  for (let n = 1; n <= 5; n++) recorder.record(event(n));
  await until('every event is stored', async () => broken.inserts() > 3 && (await stored.countDocuments()) === 5);
  recorder.record(event(6));
  await recorder.close(10_000);
  t.strictSame(await takeStored(), [1, 2, 3, 4, 5, 6]);
  t.equal(lines.filter((line) => line.endsWith('retry scheduled')).length, 3);
  t.notOk(lines.some((line) => line.includes('dropped')));
});

t.test('a process that ends while events wait for a retry stores them at once', async (t) => {
  const broken = failing('before');
  const { log, lines } = captureLines();
  const recorder = openUsageRecorder(broken.mongo, log, NEVER);
  recorder.record(event(1));
  await until('the write has failed', async () => lines.length === 1);
  await recorder.close(10_000);
  t.strictSame(await takeStored(), [1]);
});

t.test('an event that MongoDB refuses takes no other with it', async (t) => {
  await stored.insertOne({ _id: 'taken', ...event(0) });
  const unfit = { ...event(2), _id: 'taken' };
  const { log, lines } = captureLines();
  const recorder = openUsageRecorder(mongo, log, NEVER);
  for (const one of [
    event(1),
    unfit,
    { ...event(3), operation: { $bad: 'x'.repeat(17 * 2 ** 20) } as never },
    event(4),
  ]) {
    recorder.record(one);
  }
  await recorder.close(60_000);
  t.strictSame(await takeStored(), [0, 1, 4]);
  t.match(lines, [/refused by MongoDB; events dropped/]);
});

function captureLines() {
  const lines: string[] = [];
  const log = { warn: (_: object, message: string) => void lines.push(message) };
  return { log: log as unknown as Pick<Log, 'warn'>, lines };
}
