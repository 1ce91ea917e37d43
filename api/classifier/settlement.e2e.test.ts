import t from 'tap';
import { crowd } from '#testing/clients/crowd.ts';
import { checkedApi } from '#testing/doors/checked-api.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const owners = await openFakeOwners(t);
const cluster = await startCluster(t, {
  doors: 2,
  workers: [],
  asleep: ['settlement'],
  env: {
    ...owners.env,
    AI_GENERATION_USAGE_WALLET_ENABLED: '1',
    AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1',
    OUTBOUND_TIMEOUT_MS: '2000',
  },
});
const call = await checkedApi((method, target, options) => cluster.request(method, target, options));
const rows = cluster.mongo.collection<{ _id: string; state: string }>('ai_generations');

const generate = (topic: string, door = 1) =>
  call('POST', '/v1/ai/generation/preview', {
    door,
    headers: { 'x-actor-id': 'teacher-1', 'x-actor-role': 'TEACHER', 'x-organization-id': 'org-1' },
    body: {
      mode: 'fresh',
      subject: 'Toán',
      gradeLevel: 12,
      topic,
      questionType: 'NUMERIC',
      difficulty: 'dễ',
      count: 2,
    },
  });
const debitsOf = (previewId: string) => owners.ledger.debits.get(`ai-generation:${previewId}:debit`);

t.test('the same request at two doors at once is made and paid for once', async (t) => {
  const replies = await crowd(12, 12, (n) => generate('at once', (n % 2) + 1));
  t.strictSame([...new Set(replies.map(({ status }) => status))], [200]);
  t.equal(new Set(replies.map(({ text }) => text)).size, 1);
  t.match(replies[0]?.data, { chargePolicy: 'usage_wallet_settled', settlement: { credits: 6 } });
  t.equal(owners.ledger.debits.size, 1);
});

t.test('a door that dies between its owners leaves nothing unpaid and nothing paid twice', async (t) => {
  owners.fault = ({ path }) => (path.endsWith('/transactions') ? 'hangs' : undefined);
  const before = owners.calls.length;
  const lost = generate('killed').catch(() => undefined);
  const isDebiting = () => owners.calls.slice(before).some(({ path }) => path.endsWith('/transactions'));
  await until('the wallet is asked', isDebiting);
  await cluster.kill('web1');
  await lost;
  const row = await rows.findOne({ state: 'PENDING' });
  const previewId = row?._id ?? '';
  owners.fault = null;
  // What half a minute does.
  await rows.updateOne({ _id: previewId }, { $set: { leaseUntil: new Date(0) } });
  await cluster.start('settlement');
  await until('the worker has paid for it', async () => (await rows.findOne({ _id: previewId }))?.state === 'SETTLED');
  t.match(debitsOf(previewId), { amount: 6, times: 1 });
  const seen = owners.calls.length;
  t.match(await generate('killed', 2), { status: 200, data: { previewId, chargePolicy: 'usage_wallet_settled' } });
  t.equal(owners.calls.length, seen, 'given again for nothing');
  await cluster.start('web1');
});

t.test('a wallet that takes it and drops the reply: pending, then paid for by the worker, once', async (t) => {
  owners.fault = ({ path }) => (path.endsWith('/transactions') ? 'lost' : undefined);
  const pending = await generate('dropped');
  t.match(pending, { status: 503, json: { code: 'AI_SETTLEMENT_PENDING', data: { previewId: String } } });
  t.ok(Number(pending.headers['retry-after']) > 0);
  t.notMatch(pending.text, 'questions');
  const { previewId } = pending.json.data;
  owners.fault = null;
  await until('it is settled', async () => (await rows.findOne({ _id: previewId }))?.state === 'SETTLED');
  t.match(debitsOf(previewId), { amount: 6, times: 2 });
  t.match(await generate('dropped', 2), { status: 200, data: { previewId } });
});

t.test('no credits, a limit, no owner', async (t) => {
  const { balance } = owners.ledger;
  owners.ledger.balance = 5;
  t.match(await generate('poor'), { status: 402, json: { code: 'AI_WALLET_INSUFFICIENT' } });
  owners.ledger.balance = balance;
  owners.ledger.limits.set('credits_weekly', 1);
  t.match(await generate('poor'), { status: 429, json: { code: 'AI_USAGE_LIMIT_EXCEEDED' } });
  owners.ledger.limits.clear();
  owners.fault = () => 'away';
  t.match(await generate('poor'), { status: 503, json: { code: 'AI_OWNER_UNAVAILABLE' } });
  owners.fault = null;
  t.match(await generate('poor'), { status: 200 });
});
