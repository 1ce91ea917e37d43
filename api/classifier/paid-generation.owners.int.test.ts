import t from 'tap';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { ProviderFailure } from '#shared/classifier/tasks/task.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { captureLog } from '#testing/captured-log.ts';
import { paidDoor, preview } from '#testing/doors/paid-door.ts';
import { generationCall } from '#testing/doors/preview-door.ts';
import { ageGeneration } from '#testing/stored/stored-generations.ts';
import { previewGeneration } from './previews.ts';

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
