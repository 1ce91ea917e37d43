import t from 'tap';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { findGenerationById } from '#infra/mongo/classifier/generations.ts';
import { claimCommand, withHolderSession } from '#infra/mongo/mailbox/claim.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { ProviderFailure } from '#shared/classifier/tasks/task.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { captureLog } from '#testing/captured-log.ts';
import { openChance } from '#testing/chance.ts';
import { crowd } from '#testing/clients/call.ts';
import {
  doorWithWorker,
  generationCall,
  inProcessSettlement,
  paidDoor,
  preview,
  previewDoor,
  scriptedModels,
  wordOf,
} from '#testing/doors/preview-door.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { expire } from '#testing/stored/stored-commands.ts';
import { ageGeneration, postSettlement } from '#testing/stored/stored-model-work.ts';
import { lateShard, tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { gate, until } from '#testing/until.ts';
import { previewGeneration } from './previews.ts';
import { settle } from './settlement.ts';

t.test('limits and balance refuse before the provider is called', async (t) => {
  const { door, owners, models, held } = await paidDoor(t);
  owners.ledger.limits.set('credits_hourly', 5);
  t.match(await previewGeneration(door, generationCall()), {
    rejected: 'AI_USAGE_LIMIT_EXCEEDED',
    message: 'A usage limit is reached: credits_hourly',
  });
  owners.ledger.limits.clear();
  owners.ledger.balance = 5;
  t.match(await previewGeneration(door, generationCall()), { rejected: 'AI_WALLET_INSUFFICIENT' });
  t.strictSame(await held(), []);
  t.equal(models.asked.length, 0);
  owners.ledger.balance = 6;
  t.match(await preview(door), { settlement: { credits: 6 } }, 'to the last credit');
  t.equal(owners.ledger.balance, 0);
});

t.test('if an owner is unavailable before the provider call, nothing is generated', async (t) => {
  const { door, owners, models } = await paidDoor(t);
  for (const path of ['/check', '/balance']) {
    for (const fault of ['away', { status: 500 }, { status: 401 }] as const) {
      owners.fault = (call) => (call.path.endsWith(path) ? fault : undefined);
      t.match(await previewGeneration(door, generationCall()), { rejected: 'AI_OWNER_UNAVAILABLE' }, path);
    }
  }
  owners.fault = ({ path }) => (path.endsWith('/check') ? { status: 503, headers: { 'retry-after': '7' } } : undefined);
  t.match(await previewGeneration(door, generationCall()), { rejected: 'AI_OWNER_UNAVAILABLE', retryAfter: 7 });
  const { neighbours } = door;
  const poor = { ...door, neighbours: { ...neighbours, wallet: null } };
  t.match(await previewGeneration(poor, generationCall()), { rejected: 'AI_OWNER_UNAVAILABLE' }, 'not configured');
  t.equal(models.asked.length, 0);
});

t.test('the log distinguishes an owner that answers in another shape from one that is down', async (t) => {
  const { lines, ...log } = captureLog();
  const { door, owners } = await paidDoor(t, { log });
  owners.questions.set('q-1', { id: 'q-1', content: 'x' });
  const similar = { mode: 'similar' as const, referenceQuestionIds: ['q-1'] };
  const shape = (body: unknown) => ({ status: 200, body });
  for (const [path, fault, words] of [
    ['/balance', shape({ balance: 100 }), 'the wallet service answered 200 in another shape, without `data.balance`'],
    ['/balance', shape({ data: { balance: '1' } }), 'the wallet service answered 200 in another shape, without'],
    ['/check', shape({ allowed: true }), 'the usage service answered 200 in another shape, without `data.allowed`'],
    ['/context', shape([]), 'the question bank answered 200 in another shape, without `data.questions`'],
    ['/balance', 'away', 'the wallet service could not be reached'],
    ['/check', { status: 500 }, 'the usage service answered 500'],
    ['/context', 'away', 'the question bank could not be reached'],
  ] as const) {
    owners.fault = (call) => (call.path.endsWith(path) ? fault : undefined);
    lines.length = 0;
    t.match(await previewGeneration(door, generationCall(similar)), { rejected: 'AI_OWNER_UNAVAILABLE' }, words);
    const told = lines.map(({ level, fields }) => [level, String((fields.err as Error).message)]);
    t.match(told, [['warn', words]], path);
    t.equal(told.length, 1, 'once');
  }
});

t.test('if an owner is unavailable afterwards, the answer stays unseen and is paid under the same keys', async (t) => {
  const { mongo, door, owners, models, called, settlements, held } = await paidDoor(t);
  let previewId: unknown;
  for (const [path, fault] of [
    ['/consume', 'away'],
    ['/consume', 'lost'],
    ['/transactions', { status: 500 }],
    ['/transactions', 'lost'],
  ] as const) {
    owners.fault = (call) => (call.path.endsWith(path) ? fault : undefined);
    const reply = await previewGeneration(door, generationCall());
    t.match(reply, { rejected: 'AI_SETTLEMENT_PENDING', retryAfter: 3, data: { previewId: String } });
    const { data } = reply as { data: { previewId: string } };
    previewId ??= data.previewId;
    t.strictSame(data, { previewId }, 'the same at every try, and no questions');
    t.match(await settlements(), [{ status: 'PENDING', body: { previewId } }], 'the worker has it');
    const [hold, ...more] = await held();
    t.match(hold, { credits: 6, tokens: 300 }, 'what it costs stays held');
    t.ok(hold !== undefined && hold.until.getTime() > Date.now() + 23 * HOUR, 'for its day');
    t.strictSame(more, []);
  }
  owners.fault = null;
  owners.ledger.balance = 0;
  const paid = await preview(door);
  t.equal(paid.previewId, previewId);
  t.equal(models.asked.length, 1);
  t.equal(called('/check'), 1);
  t.match([...owners.ledger.consumed.values()], [{ times: 2 }], 'lost and then known as taken');
  t.match([...owners.ledger.debits.values()], [{ times: 2, amount: 6 }]);
  t.strictSame(await held(), []);
  t.equal(await generations(mongo).countDocuments({ state: 'SETTLED', idleSince: null }), 1);
});

t.test('a 409 with a retry delay does not count as paid', async (t) => {
  for (const path of ['/consume', '/transactions']) {
    const { door, owners } = await paidDoor(t);
    const busy = { status: 409, headers: { 'retry-after': '1' } };
    owners.fault = (call) => (call.path.endsWith(path) ? busy : undefined);
    t.match(await previewGeneration(door, generationCall()), { rejected: 'AI_SETTLEMENT_PENDING' }, path);
    owners.fault = null;
    t.match(await preview(door), { chargePolicy: 'usage_wallet_settled' });
    t.equal(owners.ledger.debits.size, 1);
  }
});

t.test('an old row that is taken again does not expire during the retry', async (t) => {
  const { mongo, door, models } = await paidDoor(t);
  models.script = async () => {
    throw new ProviderFailure('AI_PROVIDER_UNAVAILABLE', 'passing', { message: 'unavailable' });
  };
  t.match(await previewGeneration(door, generationCall()), { rejected: 'AI_PROVIDER_UNAVAILABLE' });
  await generations(mongo).updateMany({}, { $set: { idleSince: new Date(0) } });
  models.script = async () => {
    t.equal(await generations(mongo).countDocuments({ idleSince: { $gt: new Date(1) } }), 1);
    return undefined;
  };
  t.match(await preview(door), { chargePolicy: 'usage_wallet_settled' });
});

t.test('a generation unpaid after a day stays stored, and the same request is charged anew', async (t) => {
  const { mongo, door, owners } = await paidDoor(t);
  owners.fault = ({ path }) => (path.endsWith('/transactions') ? 'away' : undefined);
  const reply = await previewGeneration(door, generationCall());
  const { previewId } = (reply as { data: { previewId: string } }).data;
  await ageGeneration(mongo, previewId);
  owners.fault = null;
  t.not((await preview(door)).previewId, previewId);
  t.match(await generations(mongo).findOne({ _id: previewId }), { state: 'PENDING', idleSince: null });
});

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

t.test('runs of a settlement that were killed, however often, never keep a door from paying', async (t) => {
  const { mongo, door, owners, settlements } = await paidDoor(t);
  owners.fault = ({ path }) => (path.endsWith('/transactions') ? 'away' : undefined);
  t.equal(wordOf(await previewGeneration(door, generationCall())), 'AI_SETTLEMENT_PENDING');
  owners.fault = null;
  const [command] = await settlements();
  if (command === undefined) throw new Error('no settlement is posted');
  const killed = async (amongRequests: boolean) => {
    await expire(mongo, command);
    const { kind } = await withHolderSession(mongo, (session) =>
      claimCommand(mongo, command, { workerId: 'killed', leaseMs: HOUR, session, amongRequests }),
    );
    return kind;
  };
  for (let n = 0; n < 4; n++) t.equal(await killed(true), 'claimed', 'by a door');
  t.equal((await settlements())[0]?.lapses, undefined, 'a killed door is no lapse of the command');
  for (const kind of ['claimed', 'held']) t.equal(await killed(false), kind, 'by a worker');
  t.match(await settlements(), [{ lapses: 2, lockedUntil: null }], 'a suspect, for which there is no worker');

  t.match(await preview(door), { chargePolicy: 'usage_wallet_settled' });
  t.match(await settlements(), [{ status: 'DONE', result: { settledBy: 'front door' } }]);
  t.equal(owners.ledger.debits.size, 1);
});

t.test('one door calls a failing wallet for all requests that wait for it', async (t) => {
  const { mongo, door, owners, called } = await paidDoor(t);
  const go = gate();
  owners.pause = ({ path }) => (path.endsWith('/transactions') ? go.opened : undefined);
  owners.fault = ({ path }) => (path.endsWith('/transactions') ? { status: 500 } : undefined);
  const first = previewGeneration(door, generationCall());
  await until('the wallet is asked', () => called('/transactions') === 1);
  const hasty = { ...door, timing: { ...door.timing, waitMs: 1 } };
  t.equal(wordOf(await previewGeneration(hasty, generationCall())), 'AI_GENERATION_IN_PROGRESS', 'it waits too long');

  const reads = [0, 0, 0];
  const others = reads.map((_, n) => {
    const db = tappedDb(mongo, (_method, name, collection) => {
      if (name === 'findOne' && collection === COMMANDS) reads[n] = (reads[n] ?? 0) + 1;
      return undefined;
    });
    return previewGeneration({ ...door, mongo: { ...mongo, db } }, generationCall());
  });
  await until('the others wait', () => reads.every((count) => count > 1));
  go.open();
  const words = (await Promise.all([first, ...others])).map(wordOf);
  t.strictSame([...new Set(words)], ['AI_SETTLEMENT_PENDING']);
  t.equal(called('/transactions'), 1);
});

t.test('a charge that is late goes on without its request, and the retry gets it', async (t) => {
  const { door, owners, called, settlements } = await paidDoor(t);
  const go = gate();
  owners.pause = ({ path }) => (path.endsWith('/transactions') ? go.opened : undefined);
  const hasty = { ...door, timing: { ...door.timing, waitMs: 1 } };
  t.equal(wordOf(await previewGeneration(hasty, generationCall())), 'AI_SETTLEMENT_PENDING');
  const patient = preview(door);
  await until('the wallet is asked', () => called('/transactions') === 1);
  go.open();
  t.match(await patient, { chargePolicy: 'usage_wallet_settled' });
  t.match(await settlements(), [{ status: 'DONE', attempts: 1 }]);
  t.match([...owners.ledger.debits.values()], [{ times: 1 }]);
});

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
  const chance = openChance((line) => t.comment(line));
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

t.test('a door returns the settled answer although the shard of the generation shows it unpaid', async (t) => {
  const mongo = await openTestMongo(t);
  const owners = await openFakeOwners(t);
  const { subject } = await postSettlement(mongo, { organizationId: 'org-1' });
  const row = await findGenerationById(mongo, subject);
  const unpaid = () => row;
  const late = lateShard(mongo, { [generations(mongo).collectionName]: unpaid });
  const worker = inProcessSettlement(mongo, owners.env);
  const door = previewDoor(late.mongo, { owners, models: scriptedModels(), change: { settlementWorker: worker.door } });
  const { signal } = new AbortController();
  const limits = { signal, stop: signal, giveUpAt: Number.POSITIVE_INFINITY, hasWaited: false };
  t.match(await settle(door, row as never, limits), { _id: subject, state: 'SETTLED' });
  t.strictSame(worker.results, ['done']);
});
