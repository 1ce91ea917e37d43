import t, { type Test } from 'tap';
import { type ModelAnswer, ProviderFailure } from '../../shared/classifier/model-task.ts';
import type { GenerationPreview, GenerationRequest } from '../../shared/generated/classifier.ts';
import { generationHolds, generations } from '../../shared/infra/mongo/classifier/collections.ts';
import { mailboxOf } from '../../shared/infra/mongo/mailbox/mailbox.ts';
import { isRejection } from '../../shared/kernel/errors.ts';
import { crowd } from '../../shared/testing/crowd.ts';
import { openFakeOwners } from '../../shared/testing/fake-owners.ts';
import { openTestMongo } from '../../shared/testing/open-test-mongo.ts';
import { generationCall, previewDoor, type ScriptedModels, scriptedModels } from '../../shared/testing/preview-door.ts';
import { ageGeneration, expireGenerations } from '../../shared/testing/stored-generations.ts';
import { tappedDb } from '../../shared/testing/tapped-db.ts';
import { gate, until } from '../../shared/testing/until.ts';
import type { Reply } from '../route.ts';
import { previewGeneration } from './commands/preview-generation.ts';
import type { PreviewDeps } from './preview-deps.ts';

async function setUp(t: Test, change: Partial<PreviewDeps> = {}) {
  const [mongo, owners, models] = [await openTestMongo(t), await openFakeOwners(t), scriptedModels()];
  const door = previewDoor(mongo, { owners, models, change });
  const called = (path: string) => owners.calls.filter((call) => call.path.endsWith(path)).length;
  const settlements = () => mailboxOf(mongo, 'settlement').find({ queue: 'settlement' }).toArray();
  const held = async () => (await generationHolds(mongo).findOne({ _id: 'org-1' }))?.holds ?? [];
  return { mongo, owners, models, door, called, settlements, held };
}

async function preview(door: PreviewDeps, ...call: Parameters<typeof generationCall>): Promise<GenerationPreview> {
  const reply = await previewGeneration(door, generationCall(...call));
  if (isRejection(reply)) throw new Error(reply.rejected);
  return reply.data as GenerationPreview;
}

const wordOf = (reply: Awaited<ReturnType<typeof previewGeneration>>) =>
  isRejection(reply) ? reply.rejected : (reply as Reply).status;

/** A model that never answers, and stops when told to. */
const hangs: NonNullable<ScriptedModels['script']> = (_task, signal) =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });

t.test('a generation is checked, made, counted and paid for, and then given again for nothing', async (t) => {
  const { door, owners, models, called, settlements, held } = await setUp(t);
  const first = await preview(door, { count: 2 });
  t.match(first, { chargePolicy: 'usage_wallet_settled', settlement: { credits: 6, tokens: 300 }, mode: 'fresh' });
  t.equal(first.questions.length, 2);
  const [check, consume] = ['check', 'consume'].map((step) =>
    owners.calls.find(({ path }) => path === `/v1/usage/${step}`),
  );
  const scope = { organizationId: 'org-1', actorId: 'teacher-1' };
  const amounts = (tokens: number) => [
    ...['credits_monthly', 'credits_weekly', 'credits_hourly'].map((counter) => ({ counter, amount: 6 })),
    { counter: 'tokens_monthly', amount: tokens },
  ];
  t.strictSame(check?.body, { ...scope, checks: amounts(2_000) });
  t.strictSame(consume?.body, { ...scope, items: amounts(300) });
  const debit = owners.calls.find(({ path }) => path === '/v1/wallets/org-1/transactions');
  t.match(debit?.body, { type: 'USAGE_DEBIT', amount: 6, idempotencyKey: `ai-generation:${first.previewId}:debit` });
  for (const { headers } of owners.calls) {
    t.match(headers, { 'x-internal-service': 'ai-classifier-service', 'x-organization-id': 'org-1' });
    t.match(headers, { 'x-actor-id': 'teacher-1', 'x-actor-role': 'TEACHER' });
  }
  t.match(await settlements(), [{ status: 'DONE', attempts: 0, lockedUntil: null }], 'nothing is left for the worker');
  t.strictSame(await held(), []);

  const calls = owners.calls.length;
  t.strictSame(await preview(door, { count: 2, subject: ' Toán ' }), first);
  t.equal(owners.calls.length, calls, 'no owner is asked again');
  t.equal(models.asked.length, 1);
  t.equal(called('/transactions'), 1);
  t.not(
    (await preview(door, { count: 2 }, { actorId: 'teacher-2' })).previewId,
    first.previewId,
    "another's is not it",
  );
});

t.test('a day later the same request costs anew', async (t) => {
  const { mongo, door, owners } = await setUp(t);
  const first = await preview(door);
  await ageGeneration(mongo, first.previewId);
  const second = await preview(door);
  t.not(second.previewId, first.previewId);
  t.equal(owners.ledger.debits.size, 2);
  t.strictSame(await preview(door), second);
  t.equal(await generations(mongo).countDocuments({}), 2, 'and what was paid for stays');
});

t.test('equal requests at once, at two doors: one provider call, one debit, one answer', async (t) => {
  const { mongo, door, owners, models } = await setUp(t);
  const other = previewDoor(mongo, { owners, models });
  const answered = await crowd(20, 20, (n) => preview(n % 2 === 0 ? door : other));
  t.equal(new Set(answered.map((reply) => JSON.stringify(reply))).size, 1);
  t.equal(models.asked.length, 1);
  t.match([...owners.ledger.debits.values()], [{ amount: 6, times: 1 }]);
  t.equal(owners.ledger.consumed.size, 1);
});

t.test('a provider that fails is asked once for all who wait, and again for who comes later', async (t) => {
  const { mongo, door, owners, models, held } = await setUp(t);
  const go = gate();
  models.script = async () => {
    await go.opened;
    throw new ProviderFailure('AI_PROVIDER_THROTTLED', 'passing', { message: 'pause', retryAfterMs: 2_500 });
  };
  const looks = [0, 0, 0, 0, 0];
  const all = Promise.all(
    looks.map((_, n) => {
      const db = tappedDb(mongo, (method, name, collection) => {
        if (name === 'findOne' && collection === 'ai_generations') looks[n] = (looks[n] ?? 0) + 1;
        return method;
      });
      return previewGeneration({ ...door, mongo: { ...mongo, db } }, generationCall());
    }),
  );
  await until('one asks and the others wait for it', () => looks.filter((count) => count > 2).length === 4);
  go.open();
  for (const reply of await all) t.match(reply, { rejected: 'AI_PROVIDER_THROTTLED', retryAfter: 3 });
  t.ok(models.asked.length <= 2, `asked ${models.asked.length} times`);
  t.strictSame(await held(), [], 'what was held is free at once');
  models.script = null;
  t.match(await preview(door), { chargePolicy: 'usage_wallet_settled' });
  t.equal(owners.ledger.debits.size, 1);
});

t.test('who waits too long for another is told to come again', async (t) => {
  const { mongo, owners, models, door } = await setUp(t);
  const go = gate();
  models.script = async () => {
    await go.opened;
    return undefined;
  };
  const slow = preview(door);
  await until('it is asked', () => models.asked.length === 1);
  const hasty = previewDoor(mongo, { owners, models, change: { patience: { leaseMs: 30_000, waitMs: 1 } } });
  t.match(await previewGeneration(hasty, generationCall()), { rejected: 'AI_GENERATION_IN_PROGRESS', retryAfter: 3 });
  go.open();
  const made = await slow;
  t.strictSame(await preview(hasty), made);
});

t.test('limits and balance refuse before the provider is asked', async (t) => {
  const { door, owners, models, held } = await setUp(t);
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

t.test('an owner that is away before the provider call: nothing is made', async (t) => {
  const { door, owners, models } = await setUp(t);
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

t.test('an owner that is away afterwards: the answer waits, unseen, and is paid for under the same keys', async (t) => {
  const { mongo, door, owners, models, called, settlements, held } = await setUp(t);
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
    t.match(await held(), [{ credits: 6 }], 'and it stays held');
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

t.test('a conflict that asks to come again is not paid', async (t) => {
  for (const path of ['/consume', '/transactions']) {
    const { door, owners } = await setUp(t);
    const busy = { status: 409, headers: { 'retry-after': '1' } };
    owners.fault = (call) => (call.path.endsWith(path) ? busy : undefined);
    t.match(await previewGeneration(door, generationCall()), { rejected: 'AI_SETTLEMENT_PENDING' }, path);
    owners.fault = null;
    t.match(await preview(door), { chargePolicy: 'usage_wallet_settled' });
    t.equal(owners.ledger.debits.size, 1);
  }
});

t.test('an old row that is tried again is not about to go', async (t) => {
  const { mongo, door, models } = await setUp(t);
  models.script = async () => {
    throw new ProviderFailure('AI_PROVIDER_UNAVAILABLE', 'passing', { message: 'away' });
  };
  t.match(await previewGeneration(door, generationCall()), { rejected: 'AI_PROVIDER_UNAVAILABLE' });
  await generations(mongo).updateMany({}, { $set: { idleSince: new Date(0) } });
  models.script = async () => {
    t.equal(await generations(mongo).countDocuments({ idleSince: { $gt: new Date(1) } }), 1);
    return undefined;
  };
  t.match(await preview(door), { chargePolicy: 'usage_wallet_settled' });
});

t.test('what could not be paid for in a day stays, and the same request costs anew', async (t) => {
  const { mongo, door, owners } = await setUp(t);
  owners.fault = ({ path }) => (path.endsWith('/transactions') ? 'away' : undefined);
  const reply = await previewGeneration(door, generationCall());
  const { previewId } = (reply as { data: { previewId: string } }).data;
  await ageGeneration(mongo, previewId);
  owners.fault = null;
  t.not((await preview(door)).previewId, previewId);
  t.match(await generations(mongo).findOne({ _id: previewId }), { state: 'PENDING', idleSince: null });
});

t.test('requests at once cannot spend more than there is', async (t) => {
  for (const affordable of [1, 3]) {
    const { door, owners, models } = await setUp(t);
    owners.ledger.balance = affordable * 6 + 5;
    const go = gate();
    models.script = async () => {
      await go.opened;
      return undefined;
    };
    let answered = 0;
    const all = Promise.all(
      Array.from({ length: 8 }, async (_, n) => {
        const reply = await previewGeneration(door, generationCall({ topic: `topic ${n}` }));
        answered += 1;
        return wordOf(reply);
      }),
    );
    await until('each is refused or at the provider', () => answered + models.asked.length === 8);
    t.equal(models.asked.length, affordable);
    go.open();
    const words = await all;
    t.equal(words.filter((word) => word === 200).length, affordable);
    t.equal(words.filter((word) => word === 'AI_WALLET_INSUFFICIENT').length, 8 - affordable);
    t.equal(owners.ledger.balance, 5);
  }
});

t.test('limits count what is in flight as well', async (t) => {
  const { door, owners, models } = await setUp(t);
  owners.ledger.limits.set('tokens_monthly', 3_000);
  const go = gate();
  models.script = async () => {
    if (models.asked.length === 1) await go.opened;
    return undefined;
  };
  const first = previewGeneration(door, generationCall({ topic: 'one' }));
  await until('it is asked', () => models.asked.length === 1);
  t.match(await previewGeneration(door, generationCall({ topic: 'two' })), { rejected: 'AI_USAGE_LIMIT_EXCEEDED' });
  go.open();
  t.equal(wordOf(await first), 200);
  t.equal(wordOf(await previewGeneration(door, generationCall({ topic: 'two' }))), 200, '300 are used');
});

t.test('a hold that a dead process left is over with its lease', async (t) => {
  const { mongo, door, owners, models, held } = await setUp(t);
  owners.ledger.balance = 6;
  models.script = async (task, signal) => (models.asked.length === 1 ? hangs(task, signal) : undefined);
  const dying = new AbortController();
  const dead = previewGeneration(door, generationCall({ topic: 'dies' }, { signal: dying.signal }));
  await until('it is asked', () => models.asked.length === 1);
  t.equal((await held()).length, 1);
  const next = () => previewGeneration(door, generationCall({ topic: 'next' }));
  t.equal(wordOf(await next()), 'AI_WALLET_INSUFFICIENT');
  const over = { $set: { 'holds.$[].until': new Date(0) } };
  await generationHolds(mongo).updateMany({}, over);
  models.script = null;
  t.equal(wordOf(await next()), 200);
  t.strictSame(await held(), []);
  dying.abort(new Error('the test is over'));
  await t.rejects(dead);
});

t.test('whoever lost the row to another holder stores nothing and gives the answer of that one', async (t) => {
  const { mongo, door, owners, models, held } = await setUp(t);
  const go = gate();
  const answer = (text: string): Partial<ModelAnswer> => ({ model: text });
  models.script = async () => {
    if (models.asked.length > 1) return answer('second');
    await go.opened;
    return answer('first');
  };
  const late = preview(door);
  await until('it is asked', () => models.asked.length === 1);
  await expireGenerations(mongo);
  const taken = await preview(door);
  t.equal(taken.model, 'second');
  go.open();
  t.strictSame(await late, taken);
  t.equal(owners.ledger.debits.size, 1);
  t.strictSame(await held(), []);
});

t.test('a client that leaves while the model is asked costs nothing, and holds up nobody', async (t) => {
  const { door, owners, models, held } = await setUp(t);
  const leaving = new AbortController();
  models.script = (_task, signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  const left = previewGeneration(door, generationCall({}, { signal: leaving.signal }));
  await until('it is asked', () => models.asked.length === 1);
  leaving.abort(new Error('the client left'));
  await t.rejects(left, { message: 'the client left' });
  t.strictSame(await held(), []);
  models.script = null;
  t.match(await preview(door), { chargePolicy: 'usage_wallet_settled' });
  t.equal(owners.ledger.debits.size, 1);
});

t.test('fewer questions than asked for cost less; tokens that nobody counted are the estimate', async (t) => {
  const { door, models } = await setUp(t);
  const written = { content: '?', explanation: '!', options: ['1', '2', '3', '4'], correctIndexes: [0] };
  models.script = async () => ({
    json: { questions: [written] },
    usage: { inputTokens: 5, outputTokens: null },
  });
  t.match(await preview(door, { count: 4 }), { settlement: { credits: 3, tokens: 4_000 }, questions: [{}] });
});

t.test('an answer without a question is no answer and costs nothing', async (t) => {
  const { door, owners, models } = await setUp(t);
  models.script = async () => ({ json: { questions: [] } });
  t.match(await previewGeneration(door, generationCall()), { rejected: 'AI_PROVIDER_INVALID_RESPONSE' });
  t.equal(owners.ledger.consumed.size, 0);
});

t.test('similar questions follow what the bank has, for this caller', async (t) => {
  const { door, owners, models } = await setUp(t);
  owners.questions.set('q-1', { id: 'q-1', content: 'Một', options: [], answerKey: { secret: 1 } });
  const similar: Partial<GenerationRequest> = { mode: 'similar', referenceQuestionIds: ['q-1'] };
  t.match(await preview(door, similar), { mode: 'similar' });
  t.strictSame(
    models.asked.map(({ task }) => (task.data as { references: unknown }).references),
    [[{ id: 'q-1', content: 'Một', options: [] }]],
  );
  const asked = owners.calls.find(({ path }) => path === '/v1/questions/ai-classify/context');
  t.match(asked, {
    body: { questionIds: ['q-1'] },
    headers: { 'x-organization-id': 'org-1', 'x-actor-id': 'teacher-1' },
  });

  const missing = generationCall({ ...similar, referenceQuestionIds: ['q-1', 'q-2'] });
  for (const settles of [true, false]) {
    t.match(await previewGeneration({ ...door, settles }, missing), {
      rejected: 'VALIDATION_FAILED',
      details: [{ path: '/referenceQuestionIds' }],
    });
  }
  owners.fault = ({ path }) => (path.endsWith('/context') ? 'away' : undefined);
  const refused = { rejected: 'AI_OWNER_UNAVAILABLE' };
  t.match(await previewGeneration({ ...door, settles: false }, generationCall(similar)), refused);
  const bankless = { ...door, settles: false, neighbours: { ...door.neighbours, questionBank: null } };
  t.match(await previewGeneration(bankless, generationCall(similar)), refused);
  t.match(await preview(door, similar), { mode: 'similar' }, 'what is paid for needs no bank');
});

t.test('a preview that is not paid for stores nothing and asks no owner', async (t) => {
  const { mongo, door, owners } = await setUp(t, { settles: false });
  const [first, second] = [await preview(door), await preview(door)];
  t.equal(first.chargePolicy, 'preview_only_no_consume');
  t.notOk('settlement' in first);
  t.not(first.previewId, second.previewId);
  t.strictSame(first.questions, second.questions, 'the mock is deterministic');
  t.equal(owners.calls.length, 0);
  t.equal(await generations(mongo).countDocuments({}), 0);
});
