import t from 'tap';
import { generationHolds } from '#infra/mongo/classifier/collections.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { doorWithWorker, hangs, paidDoor, wordOf } from '#testing/doors/paid-door.ts';
import { generationCall } from '#testing/doors/preview-door.ts';
import { gate, until } from '#testing/until.ts';
import { previewGeneration } from './previews.ts';

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
