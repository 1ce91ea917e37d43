import t from 'tap';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { inProcessSettlement } from '#testing/actors/in-process-settlement.ts';
import { openJitter } from '#testing/chance.ts';
import { crowd } from '#testing/clients/crowd.ts';
import { doorWithWorker, preview, wordOf } from '#testing/doors/paid-door.ts';
import { generationCall, previewDoor } from '#testing/doors/preview-door.ts';
import { ageGeneration } from '#testing/stored/stored-generations.ts';
import { until } from '#testing/until.ts';
import { previewGeneration } from './previews.ts';

t.test('the worker settles the answer that the door stored, and the door returns it', async (t) => {
  const { door, owners, models, worker, called, settlements, held } = await doorWithWorker(t);
  const first = await preview(door);
  t.match(first, { chargePolicy: 'usage_wallet_settled', settlement: { credits: 6, tokens: 300 } });
  t.match(await settlements(), [{ status: 'DONE', attempts: 1, result: { settledBy: 'worker' } }]);
  t.strictSame(worker.results, ['done']);
  t.match([...owners.ledger.debits], [[`ai-generation:${first.previewId}:debit`, { amount: 6, times: 1 }]]);
  t.match([...owners.ledger.consumed], [[`ai-generation:${first.previewId}:usage`, { times: 1 }]]);
  t.strictSame(await held(), []);
  t.strictSame(await preview(door), first);
  t.equal(worker.rings.length, 1, 'given again for nothing');
  t.strictSame([models.asked.length, called('/check')], [1, 1]);
});

t.test('if the worker is late, the answer waits, unseen, and the door calls no owner', async (t) => {
  const { mongo, door, owners, models, worker, settlements, held } = await doorWithWorker(t, 1);
  worker.asleep = true;
  const replies = [];
  for (let n = 0; n < 3; n++) replies.push(await previewGeneration(door, generationCall()));
  const [row] = await generations(mongo).find().toArray();
  const pending = { rejected: 'AI_SETTLEMENT_PENDING', data: { previewId: row?._id }, retryAfter: 3 };
  for (const reply of replies) t.strictSame(reply, pending, 'the same every time, without questions');
  t.match(row, { state: 'PENDING', usageConsumed: false });
  t.match(await settlements(), [
    { _id: row?.commandId, status: 'PENDING', attempts: 0, body: { previewId: row?._id } },
  ]);
  t.match(await held(), [{ credits: 6, tokens: 300 }], 'what it costs stays held');
  t.strictSame(owners.calls.map(({ path }) => path).sort(), ['/v1/usage/check', '/v1/wallets/org-1/balance']);
  worker.asleep = false;
  const patient = { ...door, settlementWorker: { ...worker.door, waitMs: 60_000 } };
  t.match(await preview(patient), { previewId: row?._id, chargePolicy: 'usage_wallet_settled' });
  t.equal(models.asked.length, 1);
});

t.test('a repeated request runs a settlement at once that is backing off', async (t) => {
  const { door, owners, models, worker, called, settlements } = await doorWithWorker(t, 1);
  owners.fault = ({ path }) => (path.endsWith('/transactions') ? 'away' : undefined);
  const planned = (await settlementsAfter(1))?.maxAttempts ?? 0;
  for (let n = 2; n <= 4; n++) {
    const failed = await settlementsAfter(n);
    t.match(failed, { status: 'PENDING', attempts: n, lastError: { message: /wallet/ } });
    t.equal(failed?.maxAttempts, planned + n - 1, 'the schedule keeps its attempts');
    t.ok(Number(failed?.nextRunAt) > Number(failed?.lastError?.at), 'it backs off again');
  }
  owners.fault = null;
  owners.ledger.balance = 0;
  const patient = { ...door, settlementWorker: { ...worker.door, waitMs: 60_000 } };
  t.match(await preview(patient), { chargePolicy: 'usage_wallet_settled' });
  t.strictSame([models.asked.length, called('/check'), called('/consume')], [1, 1, 1], 'no preflight, usage once');
  t.equal(owners.ledger.debits.size, 1);

  /** Returns the command after this many failed attempts; each request causes one attempt. */
  async function settlementsAfter(attempts: number) {
    t.equal(wordOf(await previewGeneration(door, generationCall())), 'AI_SETTLEMENT_PENDING');
    await until('its attempt has failed', () => worker.results.length === attempts);
    return (await settlements())[0];
  }
});

t.test(
  'a client that leaves while it waits for the worker: the settlement goes on, and the retry gets it',
  async (t) => {
    const { door, owners, worker, models } = await doorWithWorker(t);
    worker.asleep = true;
    const leaving = new AbortController();
    const left = previewGeneration(door, generationCall({}, { signal: leaving.signal }));
    await until('the worker is rung', () => worker.rings.length === 1);
    leaving.abort();
    t.match(await left, { rejected: 'AI_SETTLEMENT_PENDING' });
    t.equal(owners.ledger.debits.size, 0);
    for (const rung of worker.rings) await worker.run(rung);
    t.match([...owners.ledger.debits.values()], [{ times: 1 }]);
    t.match(await preview(door), { chargePolicy: 'usage_wallet_settled' });
    t.equal(models.asked.length, 1);
  },
);

t.test('a request does not wait for a dead settlement', async (t) => {
  const { mongo, door, worker, owners } = await doorWithWorker(t);
  worker.asleep = true;
  const hasty = { ...door, settlementWorker: { ...worker.door, waitMs: 1 } };
  t.equal(wordOf(await previewGeneration(hasty, generationCall())), 'AI_SETTLEMENT_PENDING');
  await mailboxOf(mongo, 'settlement').updateMany({}, { $set: { status: 'DEAD', settledAt: new Date() } });
  t.equal(wordOf(await previewGeneration(door, generationCall())), 'AI_SETTLEMENT_PENDING');
  const [row] = await generations(mongo).find().toArray();
  await ageGeneration(mongo, row?._id ?? '');
  worker.asleep = false;
  t.not((await preview(door)).previewId, row?._id, 'after its day the same request costs anew');
  t.equal(owners.ledger.debits.size, 1);
});

t.test('doors with and without the settlement worker run side by side and debit once', async (t) => {
  const { mongo, door, owners, models } = await doorWithWorker(t);
  const alone = previewDoor(mongo, { owners, models });
  const answered = await crowd(20, 20, (n) => preview(n % 2 === 0 ? door : alone));
  t.equal(new Set(answered.map((reply) => JSON.stringify(reply))).size, 1);
  t.equal(models.asked.length, 1);
  t.match([...owners.ledger.debits.values()], [{ amount: 6, times: 1 }]);
});

t.test('whatever replies the owners lose, two doors and two workers debit once per answer', async (t) => {
  const chance = openJitter();
  t.comment(`RACE_SEED=${chance.seed}`);
  const { mongo, door, owners, models } = await doorWithWorker(t, 20);
  const beside = inProcessSettlement(mongo, owners.env, 20);
  const doors = [door, { ...door, settlementWorker: beside.door }];
  owners.fault = ({ path }) =>
    /consume|transactions/.test(path) && chance.next() < 0.5
      ? chance.next() < 0.5
        ? 'lost'
        : { status: chance.next() < 0.5 ? 500 : 429 }
      : undefined;
  const topics = ['one', 'two', 'three'];
  const answered = new Map<string, Set<string>>();
  for (let round = 1; [...answered.keys()].length < topics.length && round < 50; round++) {
    await crowd(12, 12, async (n) => {
      const topic = topics[n % topics.length] ?? '';
      const reply = await previewGeneration(doors[n % 2] ?? door, generationCall({ topic }));
      if (wordOf(reply) !== 200) return;
      answered.set(topic, (answered.get(topic) ?? new Set()).add(JSON.stringify(reply)));
    });
  }
  t.strictSame([...answered.keys()].sort(), topics.toSorted());
  for (const replies of answered.values()) t.equal(replies.size, 1, 'the same answer to all');
  t.equal(models.asked.length, topics.length);
  t.equal(owners.ledger.debits.size, topics.length);
  t.equal(owners.ledger.balance, 1_000_000 - 6 * topics.length);
});
