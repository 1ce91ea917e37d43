import t from 'tap';
import type { Call } from '#api/route.ts';
import { aiJobs, generationHolds, generations, previewLeases } from '#infra/mongo/classifier/collections.ts';
import { eraseAgain, erasePerson, pendingErasures } from '#infra/mongo/person/erase.ts';
import { countRows, findPerson } from '#infra/mongo/person/find.ts';
import type { ExplanationRequest, GenerationRequest } from '#shared/generated/classifier.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { captureLog } from '#testing/captured-log.ts';
import { callWith } from '#testing/doors/in-process-door.ts';
import { openJobDoor } from '#testing/doors/job-door.ts';
import {
  doorWithWorker,
  generationCall,
  hangs,
  paidDoor,
  preview,
  type ScriptedModels,
  scriptedModels,
  wordOf,
} from '#testing/doors/preview-door.ts';
import { makePassDue } from '#testing/stored/stored-person.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { gate, until } from '#testing/until.ts';
import { inFlight } from './ask-model.ts';
import { previewExplanation, previewGeneration } from './previews.ts';

const sharedMongo = await openTestMongo(t);

t.test('fewer questions than wanted cost less; uncounted tokens cost the estimate', async (t) => {
  const { door, models } = await paidDoor(t);
  const written = { content: '?', explanation: '!', options: ['1', '2', '3', '4'], correctIndexes: [0] };
  models.script = async () => ({
    json: { questions: [written] },
    usage: { inputTokens: 5, outputTokens: null },
  });
  t.match(await preview(door, { count: 4 }), { settlement: { credits: 3, tokens: 4_000 }, questions: [{}] });
});

t.test('an answer without questions is invalid and costs nothing', async (t) => {
  const { door, owners, models } = await paidDoor(t);
  models.script = async () => ({ json: { questions: [] } });
  t.match(await previewGeneration(door, generationCall()), { rejected: 'AI_PROVIDER_INVALID_RESPONSE' });
  t.equal(owners.ledger.consumed.size, 0);
});

t.test('similar questions follow the references that the bank returns for this caller', async (t) => {
  const { door, owners, models } = await paidDoor(t);
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

t.test('a free preview stores nothing and calls no owner', async (t) => {
  const { mongo, door, owners } = await paidDoor(t, { settles: false });
  const [first, second] = [await preview(door), await preview(door)];
  t.equal(first.chargePolicy, 'preview_only_no_consume');
  t.notOk('settlement' in first);
  t.not(first.previewId, second.previewId);
  t.strictSame(first.questions, second.questions, 'the mock is deterministic');
  t.equal(owners.calls.length, 0);
  t.equal(await generations(mongo).countDocuments({}), 0);
});

const REFUSED = { rejected: 'RATE_LIMITED', retryAfter: 5 };

function explanationCall(actorId: string): Call<ExplanationRequest> {
  const identity = { actor: { id: actorId, role: 'TEACHER' }, organizationId: 'org-1' };
  return callWith({ content: '1 + 1 = ?' }, { identity });
}

/** Returns a front door's explanation of a question, in flight until the model answers. */
function openDoor(mongo: TestMongo, models: ScriptedModels) {
  const deps = { mongo, models, now: Date.now, log: captureLog() };
  return (actorId: string) => {
    const call = explanationCall(actorId);
    return inFlight(deps, actorId, () => previewExplanation(deps as never, call));
  };
}

t.test('an actor has at most four previews in flight at all front doors together', async (t) => {
  const mongo = await openTestMongo(t);
  const models = scriptedModels();
  const answer = gate();
  models.script = () => answer.opened.then(() => undefined);
  const doors = [openDoor(mongo, models), openDoor(mongo, models)];
  const sent = Array.from({ length: 12 }, (_, n) => doors[n % 2]?.('an'));
  const refused: unknown[] = [];
  for (const reply of sent) void reply?.then((told) => 'rejected' in told && refused.push(told));
  await until('eight are refused while four are in flight', () => refused.length === 8 && models.asked.length === 4);
  t.match(refused[0], REFUSED);
  const other = doors[0]?.('binh');
  await until('another actor is free', () => models.asked.length === 5);
  answer.open();
  const replies = await Promise.all(sent);
  t.equal(replies.filter((reply) => reply !== undefined && !('rejected' in reply)).length, 4);
  t.match(await other, { status: 200 });
  t.match(await doors[1]?.('an'), { status: 200 }, 'an answered preview is no longer in flight');
  t.strictSame((await previewLeases(mongo).findOne({ _id: 'an' }))?.leases, []);
});

t.test('a settled generation, and one that joins an equal one, take no place among the four', async (t) => {
  const { door, models } = await paidDoor(t);
  const settled = await preview(door, { topic: 'settled' });
  const answer = gate();
  models.script = () => answer.opened.then(() => undefined);
  const first = ['a', 'b', 'c', 'd'].map((topic) => preview(door, { topic }));
  await until('four are in flight', () => models.asked.length === 5);
  t.match(await previewGeneration(door, generationCall({ topic: 'e' })), REFUSED);
  t.equal((await preview(door, { topic: 'settled' })).previewId, settled.previewId);

  const joined = Array.from({ length: 8 }, () => preview(door, { topic: 'a' }));
  answer.open();
  const [leader] = await Promise.all(first);
  t.strictSame(new Set((await Promise.all(joined)).map(({ previewId }) => previewId)), new Set([leader?.previewId]));
  t.equal(models.asked.length, 5);
  t.ok(await preview(door, { topic: 'e' }), 'a refused one may be sent again');
});

t.test('a preview that fails is no longer in flight', async (t) => {
  const mongo = await openTestMongo(t);
  const models = scriptedModels();
  models.script = async () => {
    throw new Error('broken');
  };
  const door = openDoor(mongo, models);
  for (let n = 0; n < 6; n++) await t.rejects(door('chi'), /broken/);
  models.script = null;
  t.match(await door('chi'), { status: 200 });
});

t.test('concurrent requests cannot spend more than the balance', async (t) => {
  for (const affordable of [1, 3]) {
    const { door, owners, models } = await paidDoor(t);
    owners.ledger.balance = affordable * 6 + 5;
    const go = gate();
    models.script = async () => {
      await go.opened;
      return undefined;
    };
    let answered = 0;
    const all = Promise.all(
      Array.from({ length: 8 }, async (_, n) => {
        const reply = await previewGeneration(door, generationCall({}, { actorId: `teacher-${n}` }));
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

t.test('usage limits include generations in flight', async (t) => {
  const { door, owners, models } = await paidDoor(t);
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

t.test('the hold of a dead process ends with its lease', async (t) => {
  const { mongo, door, owners, models, held } = await paidDoor(t);
  owners.ledger.balance = 6;
  models.script = async (task, signal) => (models.asked.length === 1 ? hangs(task, signal) : undefined);
  const dying = new AbortController();
  const dead = previewGeneration(door, generationCall({ topic: 'dies' }, { stop: dying.signal }));
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

for (const [settler, open] of [
  ['a front door', paidDoor],
  ['the worker', doorWithWorker],
] as const) {
  t.test(`usage that ${settler} has consumed counts once while its debit is pending`, async (t) => {
    const { door, owners, called, held, settlements } = await open(t);
    const { ledger, calls } = owners;
    ledger.limits.set('credits_weekly', 12);
    owners.fault = ({ path }) => (path.endsWith('/transactions') ? 'away' : undefined);
    const settlementWorker = door.settlementWorker && { ...door.settlementWorker, waitMs: 1 };
    const ask = (topic: string) => previewGeneration({ ...door, settlementWorker }, generationCall({ topic }));
    t.equal(wordOf(await ask('A')), 'AI_SETTLEMENT_PENDING');
    await until('its usage is counted', () => ledger.used.get('credits_weekly') === 6);
    await until('its debit has failed', () => called('/transactions') > 0);
    await noneRuns();
    t.match(await held(), [{ credits: 6, usageConsumed: true }], 'its debit is still held');
    ledger.balance = 11;
    t.equal(wordOf(await ask('B')), 'AI_WALLET_INSUFFICIENT', 'six for A, which are owed, and six for B');
    ledger.balance = 12;
    t.equal(wordOf(await ask('B')), 'AI_SETTLEMENT_PENDING', 'B is made: 6 are used, and 6 more are allowed');
    const check = calls.findLast(({ path }) => path.endsWith('/check'));
    const own = ['credits_monthly', 'credits_weekly', 'credits_hourly'].map((counter) => ({ counter, amount: 6 }));
    t.strictSame(check?.body.checks, [...own, { counter: 'tokens_monthly', amount: 2_000 }], 'its own estimate alone');
    await until('the usage of B is counted', () => ledger.used.get('credits_weekly') === 12);
    t.equal(wordOf(await ask('C')), 'AI_USAGE_LIMIT_EXCEEDED');
    await noneRuns();

    /** Waits for the run of the worker, which outlasts the request. */
    async function noneRuns() {
      const isIdle = async () => (await settlements()).every(({ lockedUntil }) => lockedUntil === null);
      await until('no settlement runs', isIdle);
    }
  });
}

t.test('a hold ahead counts against usage limits and balance', async (t) => {
  const { mongo, door, owners } = await paidDoor(t);
  const hold = { previewId: 'ahead', fence: 1, credits: 6, tokens: 300, until: new Date(Date.now() + HOUR) };
  await generationHolds(mongo).insertOne({ _id: 'org-1', holds: [hold] });
  owners.ledger.limits.set('credits_weekly', 11);
  t.equal(wordOf(await previewGeneration(door, generationCall())), 'AI_USAGE_LIMIT_EXCEEDED');
  owners.ledger.limits.set('credits_weekly', 12);
  owners.ledger.balance = 11;
  t.equal(wordOf(await previewGeneration(door, generationCall())), 'AI_WALLET_INSUFFICIENT');
  owners.ledger.balance = 12;
  t.equal(wordOf(await previewGeneration(door, generationCall())), 200);
});
const erase = (id: string, on = sharedMongo) =>
  erasePerson(on, id, { operator: 'an', reason: 'a test', now: Date.now() });
const rowsOf = async (id: string, on = sharedMongo) => (await countRows(on, await findPerson(on, id))).size;

/** Makes the second pass of an erasure due and runs it. */
async function passOf(id: string, on = sharedMongo) {
  await makePassDue(on, id);
  const pending = (await pendingErasures(on, 10)).find(({ again }) => again.id === id);
  if (pending === undefined) throw new Error('no second pass is pending');
  return eraseAgain(on, pending, { now: Date.now(), maxAttempts: 3 });
}

/** Returns a MongoDB where the erasure of the person runs, to its end, just before a write to the collection. */
function erasedBefore(id: string, collection: string): TestMongo {
  let isErased = false;
  const db = tappedDb(sharedMongo, (method, name, written) => {
    if (written !== collection || !/^(insert|update|findOneAnd)/.test(name) || isErased) return undefined;
    isErased = true;
    return async (...args) => {
      t.equal((await erase(id)).kind, 'erased');
      return method(...args);
    };
  });
  return { ...sharedMongo, db };
}

const previewOf = (id: string, on: TestMongo, make: () => Promise<{ status: number; data: object }>) =>
  inFlight({ mongo: on, now: Date.now, log: captureLog() }, id, make);

t.test('a job and a preview of an erased caller are refused, and nothing is stored', async (t) => {
  const { as } = await openJobDoor(t, sharedMongo);
  await erase('teacher-1');
  t.match(await as('TEACHER', 'teacher-1').create(), { status: 410, json: { code: 'PERSON_ERASED' } });
  const never = () => Promise.reject(new Error('the model was called'));
  t.strictSame(await previewOf('teacher-1', sharedMongo, never), { rejected: 'PERSON_ERASED' });
  t.equal(await rowsOf('teacher-1'), 0);
});

t.test('a job that is created during the erasure of its caller is erased by the second pass', async (t) => {
  const { as } = await openJobDoor(t, erasedBefore('teacher-2', 'ai_jobs'));
  const teacher = as('TEACHER', 'teacher-2');
  const made = await teacher.create();
  t.equal(made.status, 201, 'the tombstone came too late');
  t.equal(await rowsOf('teacher-2'), 1);
  t.match(await passOf('teacher-2'), { kind: 'waiting' }, 'the job is open');
  t.match(await teacher.cancel(made.data.job.id), { status: 200 });
  t.strictSame(await passOf('teacher-2'), { kind: 'erased', found: true });
  t.match(await aiJobs(sharedMongo).findOne({ _id: made.data.job.id }), { actorId: /^erased-/, openKey: /^erased:/ });
  t.equal(await rowsOf('teacher-2'), 0);
});

t.test('a preview that begins during the erasure of its caller holds the second pass until it ends', async (t) => {
  const reply = { status: 200, data: {} };
  const during = erasedBefore('teacher-3', 'ai_preview_leases');
  await previewOf('teacher-3', during, async () => {
    t.match(await passOf('teacher-3'), { kind: 'waiting' });
    return reply;
  });
  t.strictSame(await passOf('teacher-3'), { kind: 'erased', found: true });
  t.equal(await previewLeases(sharedMongo).findOne({ _id: 'teacher-3' }), null);
});

t.test('a paid generation whose caller was erased while its front door was paused leaves no row', async (t) => {
  const { mongo: own, door, models, owners } = await paidDoor(t);
  models.script = async () => {
    // The pause outlasts the leases of the row and of the preview, and both passes of the erasure.
    await generations(own).updateMany({}, { $set: { leaseUntil: new Date(0) } });
    await previewLeases(own).updateMany({}, { $set: { leases: [] } });
    t.equal((await erase('teacher-1', own)).kind, 'erased');
    t.match(await passOf('teacher-1', own), { kind: 'erased' });
    return undefined;
  };
  await t.rejects(preview(door), { message: 'PERSON_ERASED' });
  t.equal(models.asked.length, 1, 'no model is called for an erased person');
  t.equal(await rowsOf('teacher-1', own), 0);
  t.strictSame([owners.ledger.debits.size, owners.ledger.consumed.size], [0, 0], 'nothing is charged');
  t.match(await generations(own).find({}).toArray(), [{ key: /^erased:/, actor: { id: /^erased-/ }, state: 'MAKING' }]);
});
