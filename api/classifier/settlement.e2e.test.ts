import t, { type Test } from 'tap';
import { crowd } from '#testing/clients/call.ts';
import { checkedApi } from '#testing/doors/checked-api.ts';
import { openGenerationServer } from '#testing/models/generation-server.ts';
import { type OwnerFault, openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { type ClusterOptions, startCluster } from '#testing/processes/cluster.ts';
import { gate, until } from '#testing/until.ts';

const PREVIEW = '/v1/ai/generation/preview';
/** Longer than any machine needs, so that a wait ends only with the settlement. */
const LONG_MS = '60000';

async function setUp(t: Test, options: ClusterOptions) {
  const [owners, model] = [await openFakeOwners(t), await openGenerationServer(t)];
  const cluster = await startCluster(t, {
    doors: 2,
    inside: true,
    ...options,
    env: {
      ...owners.env,
      ...model.env,
      AI_GENERATION_USAGE_WALLET_ENABLED: '1',
      // Long enough that a busy machine answers in time, and short enough to wait for the end of a call that hangs.
      OUTBOUND_TIMEOUT_MS: '10000',
      ...options.env,
    },
  });
  const call = await checkedApi((method, target, request) => cluster.request(method, target, request));
  const headers = { 'x-actor-id': 'teacher-1', 'x-actor-role': 'TEACHER', 'x-organization-id': 'org-1' };
  const body = (topic: string) => ({
    ...{ mode: 'fresh', subject: 'Toán', gradeLevel: 12, topic, questionType: 'NUMERIC', difficulty: 'dễ', count: 2 },
  });
  const rows = cluster.mongo.collection<{ _id: string; state: string }>('ai_generations');
  const failAt = (path: string, fault: OwnerFault) => {
    owners.fault = (asked) => (asked.path.endsWith(path) ? fault : undefined);
  };
  return {
    owners,
    model,
    cluster,
    rows,
    failAt,
    generate: (topic: string, door = 1) => call('POST', PREVIEW, { door, headers, body: body(topic) }),
    /** Sends a request whose client disconnects when the signal aborts. */
    leave: (topic: string, signal: AbortSignal) =>
      fetch(`${cluster.door().url}${PREVIEW}`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body(topic)),
        signal,
      }),
    debitOf: (previewId: string) => owners.ledger.debits.get(`ai-generation:${previewId}:debit`),
    consumedOf: (previewId: string) => owners.ledger.consumed.get(`ai-generation:${previewId}:usage`),
    pending: (what: string) => until(what, async () => (await rows.findOne({ state: 'PENDING' }))?._id),
    settled: (previewId: string) =>
      until('it is settled', async () => (await rows.findOne({ _id: previewId }))?.state === 'SETTLED'),
  };
}

t.test('with the settlement worker', async (t) => {
  const scene = await setUp(t, {
    workers: ['settlement'],
    apart: ['settlement', 'web1'],
    env: {
      AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1',
      AI_SETTLEMENT_WAIT_MS: LONG_MS,
      WORKER_LEASE_MS: '2000',
    },
    envOf: { web2: { AI_SETTLEMENT_WAIT_MS: '300' } },
  });
  const { owners, model, cluster, rows, failAt, generate, leave, debitOf, consumedOf, pending, settled } = scene;
  const commands = cluster.mongo.collection('commands');

  await t.test('the worker makes every call that follows the answer, and the door returns the preview', async (t) => {
    const reply = await generate('one');
    t.match(reply, {
      status: 200,
      data: { chargePolicy: 'usage_wallet_settled', settlement: { credits: 6, tokens: 300 } },
    });
    const { previewId } = reply.data;
    t.match(await commands.findOne({ subject: previewId }), { status: 'DONE', result: { settledBy: 'worker' } });
    t.match([debitOf(previewId), consumedOf(previewId)], [{ amount: 6, times: 1 }, { times: 1 }]);
    const calls = owners.calls.length;
    t.strictSame((await generate('one', 2)).data, reply.data);
    t.equal(owners.calls.length, calls, 'given again for nothing');
  });

  await t.test('the same request at two doors at once is made and paid for once', async (t) => {
    const before = [owners.ledger.debits.size, model.calls()];
    const replies = await crowd(4, 4, (n) => generate('at once', (n % 2) + 1));
    const good = replies.filter(({ status }) => status === 200);
    t.ok(good.length >= 2, 'all of the patient door');
    t.equal(new Set(good.map(({ text }) => text)).size, 1);
    t.strictSame(
      [owners.ledger.debits.size, model.calls()],
      before.map((n) => (n ?? 0) + 1),
    );
  });

  await t.test('a hanging wallet leaves one pending id, without questions, until the worker has paid', async (t) => {
    failAt('/transactions', 'hangs');
    const first = await generate('hangs', 2);
    t.match(first, { status: 503, json: { code: 'AI_SETTLEMENT_PENDING', data: { previewId: String } } });
    t.ok(Number(first.headers['retry-after']) > 0);
    t.notMatch(first.text, 'questions');
    const { previewId } = first.json.data;
    t.match((await generate('hangs', 2)).json, { code: 'AI_SETTLEMENT_PENDING', data: { previewId } });
    owners.fault = null;
    t.match(await generate('hangs', 1), { status: 200, data: { previewId, chargePolicy: 'usage_wallet_settled' } });
    t.match(debitOf(previewId), { amount: 6, times: 1 });
  });

  await t.test('a worker killed between the two owners leaves nothing unpaid and nothing paid twice', async (t) => {
    failAt('/transactions', 'hangs');
    const before = owners.calls.length;
    const waiting = generate('killed worker');
    const isDebiting = () => owners.calls.slice(before).some(({ path }) => path.endsWith('/transactions'));
    await until('the wallet is asked', isDebiting);
    await cluster.kill('settlement');
    owners.fault = null;
    await cluster.start('settlement');
    const reply = await waiting;
    t.match(reply, { status: 200, data: { chargePolicy: 'usage_wallet_settled' } });
    const { previewId } = reply.data;
    t.match([debitOf(previewId), consumedOf(previewId)], [{ amount: 6, times: 1 }, { times: 1 }]);
  });

  await t.test('a wallet that debits and drops its reply is called again under the same key', async (t) => {
    failAt('/transactions', 'lost');
    const { json } = await generate('dropped', 2);
    t.match(json, { code: 'AI_SETTLEMENT_PENDING' });
    await until('the wallet has dropped a reply', () => debitOf(json.data.previewId));
    owners.fault = null;
    await settled(json.data.previewId);
    const { times = 0, amount } = debitOf(json.data.previewId) ?? {};
    t.equal(amount, 6);
    t.ok(times >= 2, 'one debit, asked for more than once');
    t.match(await generate('dropped'), { status: 200, data: { previewId: json.data.previewId } });
  });

  await t.test('if a door is killed while it waits, the worker pays and another door answers', async (t) => {
    await cluster.kill('settlement');
    const lost = generate('killed door').catch(() => undefined);
    const previewId = await pending('the answer is stored');
    await cluster.kill('web1');
    await lost;
    t.equal(debitOf(previewId), undefined, 'no door pays');
    await cluster.start('settlement');
    await settled(previewId);
    t.match(debitOf(previewId), { amount: 6, times: 1 });
    const seen = owners.calls.length;
    t.match(await generate('killed door', 2), { status: 200, data: { previewId } });
    t.equal(owners.calls.length, seen, 'given again for nothing');
    await cluster.start('web1');
  });

  await t.test(
    'a client that leaves while the model writes: the answer is finished, stored and paid for',
    async (t) => {
      const [before, go, leaving] = [model.calls(), gate(), new AbortController()];
      model.before = () => go.opened;
      const left = leave('leaves', leaving.signal);
      await until('the model is asked', () => model.calls() === before + 1);
      leaving.abort();
      await t.rejects(left, { name: 'AbortError' });
      // Round trips: by then the door knows that the connection is closed.
      for (let n = 0; n < 3; n++) await cluster.request('GET', '/healthz');
      const retried = generate('leaves', 1);
      go.open();
      model.before = () => undefined;
      const reply = await retried;
      t.match(reply, { status: 200, data: { chargePolicy: 'usage_wallet_settled' } });
      t.equal(model.calls(), before + 1, 'the model was asked once');
      t.match(debitOf(reply.data.previewId), { amount: 6, times: 1 });
    },
  );

  await t.test('a draining door finishes generations whose client has left', async (t) => {
    const [before, go, leaving] = [model.calls(), gate(), new AbortController()];
    model.before = () => go.opened;
    const left = leave('drains', leaving.signal);
    await until('the model is asked', () => model.calls() === before + 1);
    leaving.abort();
    await t.rejects(left);
    const ended = cluster.kill('web1', 'SIGTERM');
    await until('it drains', () => cluster.output('web1').includes('draining'));
    go.open();
    model.before = () => undefined;
    t.equal(await ended, 0);
    await cluster.start('web1');
    t.match(await generate('drains'), { status: 200, data: { chargePolicy: 'usage_wallet_settled' } });
    t.equal(model.calls(), before + 1, 'the model was asked once');
  });

  await t.test('missing credits, a usage limit or an unavailable owner refuse the request', async (t) => {
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
    t.equal(await rows.countDocuments({ state: 'PENDING' }), 0, 'nothing is left unpaid');
  });
});

t.test('without the settlement worker the door makes the same calls', async (t) => {
  const scene = await setUp(t, { workers: [], apart: ['web1'], env: { AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '0' } });
  const { owners, model, cluster, failAt, generate, debitOf, consumedOf, pending } = scene;
  const commands = cluster.mongo.collection('commands');

  await t.test('the same request at two doors at once is made and paid for once', async (t) => {
    const replies = await crowd(4, 4, (n) => generate('at once', (n % 2) + 1));
    t.strictSame([...new Set(replies.map(({ status }) => status))], [200]);
    t.equal(new Set(replies.map(({ text }) => text)).size, 1);
    t.match(replies[0]?.data, { chargePolicy: 'usage_wallet_settled', settlement: { credits: 6 } });
    t.strictSame([owners.ledger.debits.size, model.calls()], [1, 1]);
  });

  await t.test('a door that dies before it has paid: the next retry pays under the original keys', async (t) => {
    for (const path of ['/consume', '/transactions']) {
      failAt(path, 'hangs');
      const before = owners.calls.length;
      const lost = generate(`killed at ${path}`).catch(() => undefined);
      await until('the owner is asked', () => owners.calls.slice(before).some((call) => call.path.endsWith(path)));
      await cluster.kill('web1');
      await lost;
      const previewId = await pending('the answer is stored');
      owners.fault = null;
      // Expire the lease, as half a minute would.
      await commands.updateOne({ subject: previewId }, { $set: { lockedUntil: new Date(0), nextRunAt: new Date(0) } });
      const asked = model.calls();
      const reply = await generate(`killed at ${path}`, 2);
      t.match(reply, { status: 200, data: { previewId, chargePolicy: 'usage_wallet_settled' } });
      t.match([debitOf(previewId), consumedOf(previewId)], [{ amount: 6, times: 1 }, { times: 1 }], path);
      t.equal(model.calls(), asked, 'and asks no model');
      await cluster.start('web1');
    }
  });
});
