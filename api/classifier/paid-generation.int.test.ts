import t from 'tap';
import { GENERATIONS, generations } from '#infra/mongo/classifier/collections.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { mockAnswer } from '#shared/classifier/mock.ts';
import { type ModelAnswer, ProviderFailure } from '#shared/classifier/tasks/task.ts';
import { openChance } from '#testing/chance.ts';
import { crowd } from '#testing/clients/call.ts';
import { doorWithWorker, generationCall, hangs, paidDoor, preview, previewDoor } from '#testing/doors/preview-door.ts';
import { askedModels, settingsFor } from '#testing/models/asked-models.ts';
import { openGenerationServer } from '#testing/models/generation-server.ts';
import { ageGeneration, expireGenerations } from '#testing/stored/stored-model-work.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { gate, until } from '#testing/until.ts';
import { previewGeneration } from './previews.ts';

t.test('a generation is checked, made, counted and paid for, and then replayed free of charge', async (t) => {
  const { door, owners, models, called, settlements, held } = await paidDoor(t);
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
  const paid = { status: 'DONE', attempts: 1, lockedUntil: null, result: { settledBy: 'front door' } };
  t.match(await settlements(), [paid], 'nothing is left for the worker');
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

t.test('after a day the same request is charged again', async (t) => {
  const { mongo, door, owners } = await paidDoor(t);
  const first = await preview(door);
  await ageGeneration(mongo, first.previewId);
  const second = await preview(door);
  t.not(second.previewId, first.previewId);
  t.equal(owners.ledger.debits.size, 2);
  t.strictSame(await preview(door), second);
  t.equal(await generations(mongo).countDocuments({}), 2, 'and what was paid for stays');
});

t.test('concurrent equal requests at two doors make one provider call, one debit and one answer', async (t) => {
  const { mongo, door, owners, models } = await paidDoor(t);
  const other = previewDoor(mongo, { owners, models });
  const answered = await crowd(20, 20, (n) => preview(n % 2 === 0 ? door : other));
  t.equal(new Set(answered.map((reply) => JSON.stringify(reply))).size, 1);
  t.equal(models.asked.length, 1);
  t.match([...owners.ledger.debits.values()], [{ amount: 6, times: 1 }]);
  t.equal(owners.ledger.consumed.size, 1);
});

t.test('a failing provider is called once for all waiting requests, and again for a later one', async (t) => {
  const { mongo, door, owners, models, held } = await paidDoor(t);
  const go = gate();
  models.script = async () => {
    await go.opened;
    throw new ProviderFailure('AI_PROVIDER_THROTTLED', 'passing', { message: 'pause', retryAfterMs: 2_500 });
  };
  const reads = [0, 0, 0, 0, 0];
  const all = Promise.all(
    reads.map((_, n) => {
      const db = tappedDb(mongo, (method, name, collection) => {
        if (name === 'findOne' && collection === 'ai_generations') reads[n] = (reads[n] ?? 0) + 1;
        return method;
      });
      return previewGeneration({ ...door, mongo: { ...mongo, db } }, generationCall());
    }),
  );
  await until('one asks and the others wait for it', () => reads.filter((count) => count > 2).length === 4);
  go.open();
  for (const reply of await all) t.match(reply, { rejected: 'AI_PROVIDER_THROTTLED', retryAfter: 3 });
  t.ok(models.asked.length <= 2, `asked ${models.asked.length} times`);
  t.strictSame(await held(), [], 'what was held is free at once');
  models.script = null;
  t.match(await preview(door), { chargePolicy: 'usage_wallet_settled' });
  t.equal(owners.ledger.debits.size, 1);
});

t.test('a request that waits too long for an equal one gets AI_GENERATION_IN_PROGRESS', async (t) => {
  const { mongo, owners, models, door } = await paidDoor(t);
  const go = gate();
  models.script = async () => {
    await go.opened;
    return undefined;
  };
  const slow = preview(door);
  await until('it is asked', () => models.asked.length === 1);
  const hasty = previewDoor(mongo, { owners, models, change: { timing: { leaseMs: 30_000, waitMs: 1 } } });
  t.match(await previewGeneration(hasty, generationCall()), { rejected: 'AI_GENERATION_IN_PROGRESS', retryAfter: 3 });
  go.open();
  const made = await slow;
  t.strictSame(await preview(hasty), made);
});

t.test('a holder that lost its row stores nothing and returns the next holder’s answer', async (t) => {
  const { mongo, door, owners, models, held } = await paidDoor(t);
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

t.test('a late answer is dropped if another holder is already calling the model', async (t) => {
  const { mongo, door, owners, models, held } = await paidDoor(t);
  const go = [gate(), gate()];
  models.script = async () => {
    const nth = models.asked.length;
    await go[nth - 1]?.opened;
    return { model: `model of ${nth}` };
  };
  let reads = 0;
  const db = tappedDb(mongo, (_method, name, collection) => {
    if (name === 'findOne' && collection === GENERATIONS) reads += 1;
    return undefined;
  });
  const late = preview({ ...door, mongo: { ...mongo, db } });
  await until('it is asked', () => models.asked.length === 1);
  await expireGenerations(mongo);
  const taken = preview(door);
  await until('the next holder asks too', () => models.asked.length === 2);
  go[0]?.open();
  const before = reads;
  await until('the late one has stored nothing, and waits', () => reads > before + 1);
  t.match(await generations(mongo).find().toArray(), [{ state: 'MAKING', fence: 2, result: null }]);
  t.equal(owners.ledger.debits.size, 0);
  go[1]?.open();
  t.match(await taken, { model: 'model of 2' });
  t.strictSame(await late, await taken);
  t.match([...owners.ledger.debits.values()], [{ times: 1 }]);
  t.strictSame(await held(), []);
});

t.test('a holder that fails late does not free the row of the next holder', async (t) => {
  const { mongo, door, owners, models } = await paidDoor(t);
  const go = [gate(), gate()];
  models.script = async () => {
    const nth = models.asked.length;
    await go[nth - 1]?.opened;
    if (nth === 1) throw new ProviderFailure('AI_PROVIDER_UNAVAILABLE', 'passing', { message: 'unavailable' });
    return undefined;
  };
  const late = previewGeneration(door, generationCall());
  await until('it is asked', () => models.asked.length === 1);
  await expireGenerations(mongo);
  const taken = preview(door);
  await until('the next holder asks too', () => models.asked.length === 2);
  const held = await generations(mongo).findOne();
  go[0]?.open();
  t.match(await late, { rejected: 'AI_PROVIDER_UNAVAILABLE' });
  t.strictSame(await generations(mongo).findOne(), held);
  go[1]?.open();
  t.match(await taken, { chargePolicy: 'usage_wallet_settled' });
  t.equal(owners.ledger.debits.size, 1);
});

t.test('a generation that another request settles first is not made again', async (t) => {
  const { mongo, door, owners, models, called } = await paidDoor(t);
  owners.fault = ({ path }) => (path.endsWith('/transactions') ? 'away' : undefined);
  t.match(await previewGeneration(door, generationCall()), { rejected: 'AI_SETTLEMENT_PENDING' });
  owners.fault = null;
  let settled: Awaited<ReturnType<typeof preview>> | undefined;
  const db = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'findOneAndUpdate' || collection !== COMMANDS) return undefined;
    return async (...args) => {
      settled ??= await preview(door);
      return method(...args);
    };
  });
  t.strictSame(await preview({ ...door, mongo: { ...mongo, db } }), settled);
  t.equal(models.asked.length, 1);
  t.equal(called('/check'), 1, 'nor is the balance looked at');
});

t.test('if a client leaves, its answer is still made, stored and paid for, and a retry gets it', async (t) => {
  const { door, owners, models, held } = await paidDoor(t);
  const [leaving, go] = [new AbortController(), gate()];
  models.script = async (_task, signal) => {
    leaving.abort(new Error('the client left'));
    await go.opened;
    signal.throwIfAborted();
    return undefined;
  };
  const left = previewGeneration(door, generationCall({}, { signal: leaving.signal }));
  await until('it is asked', () => models.asked.length === 1);
  const retried = preview(door);
  go.open();
  t.match(await left, { status: 200 });
  t.match(await retried, { chargePolicy: 'usage_wallet_settled' });
  t.strictSame(await preview(door), await retried);
  t.equal(models.asked.length, 1);
  t.match([...owners.ledger.debits.values()], [{ times: 1 }]);
  t.strictSame(await held(), []);
});

t.test('a client that leaves while it waits for an equal request is released at once', async (t) => {
  const { door, models } = await paidDoor(t);
  const [leaving, go] = [new AbortController(), gate()];
  models.script = async () => {
    await go.opened;
    return undefined;
  };
  const making = preview(door);
  await until('it is asked', () => models.asked.length === 1);
  const waiting = previewGeneration(door, generationCall({}, { signal: leaving.signal }));
  leaving.abort();
  await t.rejects(waiting, { name: 'AbortError' });
  go.open();
  t.match(await making, { chargePolicy: 'usage_wallet_settled' });
});

t.test('a stopping process aborts its model call, which costs nothing and blocks no later request', async (t) => {
  const { door, owners, models, held } = await paidDoor(t);
  const stopping = new AbortController();
  models.script = hangs;
  const cut = previewGeneration(door, generationCall({}, { stop: stopping.signal }));
  await until('it is asked', () => models.asked.length === 1);
  stopping.abort(new Error('the process ends'));
  await t.rejects(cut, { message: 'the process ends' });
  t.strictSame(await held(), []);
  models.script = null;
  t.match(await preview(door), { chargePolicy: 'usage_wallet_settled' });
  t.equal(owners.ledger.debits.size, 1);
});

const chance = openChance((line) => t.comment(line));
const CASES = 12;

for (const [settler, open] of [
  ['front door', paidDoor],
  ['worker', doorWithWorker],
] as const) {
  t.test(
    `the ${settler} charges three credits for each question that is returned, for an equal one nothing, and the tokens that were counted`,
    async (t) => {
      const { door, owners, models } = await open(t);
      for (let n = 0; n < CASES; n++) {
        const asked = 1 + Math.floor(chance.next() * 20);
        const written = 1 + Math.floor(chance.next() * 25);
        const isCounted = chance.next() < 0.5;
        const usage = { inputTokens: isCounted ? 10 * n : null, outputTokens: 7 };
        models.script = async (task) => {
          const [one] = (mockAnswer(task) as { questions: object[] }).questions;
          const questions = Array.from({ length: written }, (_, at) => ({ ...one, content: `Câu ${at}` }));
          return { usage, json: { questions: questions.toSpliced(1, 0, { ...one, content: ' câu 0 ' }) } };
        };
        const made = await preview(door, { topic: `topic ${n}`, count: asked });
        const shown = Math.min(asked, written);
        const [credits, tokens] = [3 * shown, isCounted ? 10 * n + 7 : 1_000 * asked];
        const about = `${written} of ${asked}`;
        t.equal(made.questions.length, shown, about);
        t.match(made, { settlement: { credits, tokens } }, about);
        t.match(
          owners.ledger.debits.get(`ai-generation:${made.previewId}:debit`),
          { amount: credits, times: 1 },
          about,
        );
        const items = ['credits_monthly', 'credits_weekly', 'credits_hourly'].map((counter) => ({
          counter,
          amount: credits,
        }));
        t.strictSame(
          owners.ledger.consumed.get(`ai-generation:${made.previewId}:usage`),
          { items: [...items, { counter: 'tokens_monthly', amount: tokens }], times: 1 },
          about,
        );
      }
    },
  );
}

t.test('the usage service counts the tokens of every call of a generation, and the reply is their sum', async (t) => {
  const server = await openGenerationServer(t);
  const { models, events } = askedModels(t, settingsFor('local', server.env));
  const { door, owners } = await paidDoor(t, { models });
  server.next = ['{"questions": []}'];
  const made = await preview(door, { questionType: 'NUMERIC', count: 2 });
  t.match(made, { usage: { inputTokens: 200, outputTokens: 400 }, settlement: { credits: 6, tokens: 600 } });
  t.match(owners.ledger.consumed.get(`ai-generation:${made.previewId}:usage`), {
    items: [{ amount: 6 }, { amount: 6 }, { amount: 6 }, { counter: 'tokens_monthly', amount: 600 }],
    times: 1,
  });
  t.match(events, [
    { outcome: 'failure', inputTokens: 100, outputTokens: 200 },
    { outcome: 'success', inputTokens: 100, outputTokens: 200 },
  ]);
});
